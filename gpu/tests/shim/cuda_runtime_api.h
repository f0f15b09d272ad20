// A CUDA runtime that runs kernels on the CPU, for tests: the part that this library uses. See emulator.h.
#pragma once

#include <cstddef>

// CUDA's small vectors, with the device's alignment. They may alias anything, as in device code.
struct __attribute__((may_alias, aligned(8))) uint2 {
  unsigned x, y;
};
struct __attribute__((may_alias)) uint3 {
  unsigned x, y, z;
};
struct __attribute__((may_alias, aligned(16))) uint4 {
  unsigned x, y, z, w;
};
struct __attribute__((may_alias, aligned(8))) float2 {
  float x, y;
};
struct __attribute__((may_alias, aligned(16))) float4 {
  float x, y, z, w;
};
constexpr uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
};

enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalState = 401,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorStreamCaptureWrongThread = 908,
};
using cudaError_t = cudaError;
const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError();

using cudaStream_t = struct CUstream_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;

// ---- device --------------------------------------------------------------------------------------

struct cudaDeviceProp {
  char name[256];
  int major;
  int minor;
};
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaSetDevice(int);  // for the calling thread
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int device);
cudaError_t cudaDeviceSynchronize();

// ---- memory --------------------------------------------------------------------------------------

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
cudaError_t cudaMalloc(void**, std::size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t, cudaMemcpyKind, cudaStream_t = nullptr);

// ---- streams, graphs ---------------------------------------------------------------------

inline constexpr unsigned cudaStreamDefault = 0;
inline constexpr unsigned cudaStreamNonBlocking = 1;
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeThreadLocal = 1 };
cudaError_t cudaStreamCreate(cudaStream_t*);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);

cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t* nodes, std::size_t* count);  // nodes: null
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaGraphDestroy(cudaGraph_t);

// ---- launches ------------------------------------------------------------------------------------

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;  // 0
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

struct cudaFuncAttributes {
  int ptxVersion;
};
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void* kernel);
