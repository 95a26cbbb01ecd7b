// What the kernels of a decoder's step are queued with, noted so that one kernel can do all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {

enum class StepKind : int { Embed, Product, Attend, Join, Likeliest };
inline constexpr int kJoinsAsClusters = 1;  // of Attend and Join: as attention in clusters rounds

// Rows of an embedding without positions.
template <typename T>
struct EmbedRows {
  const T* weight = nullptr;
  const std::int64_t* tokens = nullptr;  // [rows]
  T* out = nullptr;                      // [rows, width]
  int rows = 0, width = 0;               // whole packs of 16 bytes
};

// One of EmbedRows, FewRows, CachedAttention (Attend and Join) and Likeliest, as `kind` says.
struct alignas(16) StepInstruction {
  StepKind kind = StepKind::Embed;
  int how = 0;
  alignas(16) std::byte body[112] = {};

  template <typename Body>
  static StepInstruction of(StepKind kind, const Body& body, int how = 0) {
    static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= sizeof(StepInstruction::body));
    StepInstruction instruction{.kind = kind, .how = how};
    std::memcpy(instruction.body, &body, sizeof(body));
    return instruction;
  }
  template <typename Body>
  Body as() const {
    Body to;
    std::memcpy(&to, body, sizeof(to));
    return to;
  }
};

struct StepNotes {
  std::vector<StepInstruction> instructions;
  int bf16 = 0, half = 0;  // instructions of this type
};

// Those that kernels which this thread queues are noted in; null: they are not. What cannot be part of one
// kernel is not noted, so that there are fewer notes than kernels.
StepNotes*& step_notes();

template <template <typename> typename Body, typename T>
void note_in_step(StepKind kind, const Body<T>& body, int how = 0) {
  if constexpr (!std::is_same_v<T, float>) {
    StepNotes* notes = step_notes();
    if (notes == nullptr) return;
    notes->instructions.push_back(StepInstruction::of(kind, body, how));
    ++(std::is_same_v<T, __nv_bfloat16> ? notes->bf16 : notes->half);
  }
}

}  // namespace twobw::models::cuda
