// Loops marked TWOBW_VECTORIZED are compiled once per instruction set on x86_64 and chosen when the
// program starts, so that one binary runs everywhere and uses AVX2 or AVX-512 where they are.
// Elsewhere (aarch64: NEON is always there) it is nothing. The sanitizers do not know such functions.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TWOBW_VECTORIZED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TWOBW_VECTORIZED
#endif
