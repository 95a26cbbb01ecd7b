#include "models/cuda/step_notes.h"

#include "models/cuda/step_program.h"

namespace twobw::models::cuda {

StepNotes*& step_notes() {
  thread_local StepNotes* notes = nullptr;
  return notes;
}

bool& steps_in_one_kernel() {
  thread_local bool in_one = true;
  return in_one;
}

StepTuning& step_tuning() {
  thread_local StepTuning tuning;
  return tuning;
}

}  // namespace twobw::models::cuda
