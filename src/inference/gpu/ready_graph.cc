#include "inference/gpu/ready_graph.h"

#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <vector>

#include "device/gpu.h"

namespace twobw::inference {
namespace {

using device::check_cuda;
using GraphNodes = StepGraphs::GraphNodes;

GraphNodes count_nodes(cudaGraph_t graph) {
  GraphNodes nodes;
  std::size_t count = 0;
  check_cuda(cudaGraphGetNodes(graph, nullptr, &count), "a graph's nodes");
  std::vector<cudaGraphNode_t> all(count);
  check_cuda(cudaGraphGetNodes(graph, all.data(), &count), "a graph's nodes");
  for (cudaGraphNode_t node : all) {
    cudaGraphNodeType type{};
    check_cuda(cudaGraphNodeGetType(node, &type), "a graph's node");
    ++(type == cudaGraphNodeTypeKernel ? nodes.kernels : nodes.others);
#if CUDART_VERSION >= 13000
    std::size_t edges = 0;
    check_cuda(cudaGraphNodeGetDependencies(node, nullptr, nullptr, &edges), "a node's edges");
    std::vector<cudaGraphNode_t> before(edges);
    std::vector<cudaGraphEdgeData> data(edges);
    check_cuda(cudaGraphNodeGetDependencies(node, before.data(), data.data(), &edges), "a node's edges");
    nodes.early += std::ranges::count_if(
        data, [](const cudaGraphEdgeData& edge) { return edge.type == cudaGraphDependencyTypeProgrammatic; });
#endif
  }
  return nodes;
}

// Notes what this thread queues, as long as it lives.
class NotesOfStep {
 public:
  NotesOfStep() { models::cuda::step_notes() = &notes_; }
  ~NotesOfStep() { models::cuda::step_notes() = nullptr; }
  NotesOfStep(const NotesOfStep&) = delete;
  NotesOfStep& operator=(const NotesOfStep&) = delete;
  const models::cuda::StepNotes& notes() const { return notes_; }

 private:
  models::cuda::StepNotes notes_;
};

}  // namespace

ReadyGraph::ReadyGraph(const std::function<void()>& queue) : captured_(/*keep_graph=*/true) {
  captured_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  models::cuda::StepNotes notes;
  {
    const NotesOfStep noting;
    queue();
    notes = noting.notes();
  }
  captured_.capture_end();
  // As many notes as kernels, and nothing else: the notes are all of it.
  const GraphNodes nodes = count_nodes(captured_.raw_cuda_graph());
  if (models::cuda::steps_in_one_kernel() && nodes.others == 0 &&
      nodes.kernels == std::ssize(notes.instructions))
    program_ = models::cuda::StepProgram::of(notes, models::cuda::step_tuning());
  if (program_) return;
  check_cuda(cudaGraphInstantiate(&ready_, captured_.raw_cuda_graph(), 0), "a graph of steps");
  check_cuda(cudaGraphUpload(ready_, c10::cuda::getCurrentCUDAStream().stream()), "a graph of steps");
}

ReadyGraph::~ReadyGraph() {
  if (ready_ != nullptr) cudaGraphExecDestroy(ready_);
}

void ReadyGraph::launch() const {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  check_cuda(program_ ? program_->launch(stream) : cudaGraphLaunch(ready_, stream), "a step");
}

GraphNodes ReadyGraph::nodes() {
  if (program_) return {.kernels = 1};
  return count_nodes(captured_.raw_cuda_graph());
}

}  // namespace twobw::inference
