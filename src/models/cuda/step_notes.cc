#include "models/cuda/step_notes.h"

namespace twobw::models::cuda {

StepNotes*& step_notes() {
  thread_local StepNotes* notes = nullptr;
  return notes;
}

}  // namespace twobw::models::cuda
