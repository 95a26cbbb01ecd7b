// Small functions that CPU loops and CUDA kernels share, so that both round by the same formulas.
#pragma once

#if defined(__CUDACC__)
#define TWOBW_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TWOBW_HOST_DEVICE inline __attribute__((always_inline))
#endif
