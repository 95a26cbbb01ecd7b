// Attributes of functions.
#pragma once

// Small functions that CPU loops and CUDA kernels share, so that both round by the same formulas.
#if defined(__CUDACC__)
#define TWOBW_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TWOBW_HOST_DEVICE inline __attribute__((always_inline))
#endif

// Loops compiled once per instruction set on x86_64 and selected when the program starts, so that one binary
// runs everywhere and uses AVX2 or AVX-512 where available. Empty on aarch64, which always has NEON, and for
// sanitizers, which do not support such functions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TWOBW_VECTORIZED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TWOBW_VECTORIZED
#endif
