// The emulated runtime's calls about streams and graphs.
#include <utility>

#include "runtime.h"

using namespace gpu_emulator;  // NOLINT: these are its calls

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Locked locked;
  *stream = new CUstream_st;
  (*stream)->flags = flags;
  runtime().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Locked locked;
  if (!runtime().streams.erase(stream)) return report(cudaErrorInvalidResourceHandle);
  flush();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Locked locked;
  if (const cudaError_t error = usable(stream)) return report(error);
  if (capturing(stream)) {
    stream->status = cudaStreamCaptureStatusInvalidated;
    return report(cudaErrorStreamCaptureUnsupported);
  }
  return synchronise();
}

// ---- graphs --------------------------------------------------------------------------------------

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Locked locked;
  if (const cudaError_t error = usable(stream)) return report(error);
  *status = stream ? stream->status : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Locked locked;
  if (!stream) return report(cudaErrorStreamCaptureUnsupported);
  if (const cudaError_t error = usable(stream)) return report(error);
  if (capturing(stream)) return report(cudaErrorIllegalState);
  stream->status = cudaStreamCaptureStatusActive;
  stream->mode = mode;
  stream->capturer = std::this_thread::get_id();
  stream->graph = {};
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Locked locked;
  *graph = nullptr;
  if (!stream || usable(stream)) return report(cudaErrorInvalidResourceHandle);
  if (!capturing(stream)) return report(cudaErrorIllegalState);
  if (stream->capturer != std::this_thread::get_id()) return report(cudaErrorStreamCaptureWrongThread);
  const bool valid = stream->status == cudaStreamCaptureStatusActive;
  stream->status = cudaStreamCaptureStatusNone;
  if (!valid) return report(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st(std::move(stream->graph));
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (!graph || !count || nodes) return report(cudaErrorInvalidValue);
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (!exec || !graph) return report(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const Locked locked;
  if (!exec) return report(cudaErrorInvalidValue);
  return report(enqueue(stream, [nodes = exec->nodes] {
    for (const Work& node : nodes) node();
  }));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
