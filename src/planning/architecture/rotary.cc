#include "planning/architecture/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "planning/architecture/llama.h"

namespace twobw::architecture {
namespace {

// The base at which the lowest frequency is stretched as the sequence is, and the highest not at all.
double dynamic_base(const ModelConfig& config, std::int64_t length) {
  const double head = head_size(config);
  const double longer = static_cast<double>(length) / config.rope_original_context;
  const double stretch = config.rope_factor * longer - (config.rope_factor - 1);
  return config.rope_theta * std::pow(stretch, head / (head - 2));
}

double llama3_frequency(const ModelConfig& config, double frequency) {
  const double turns = config.rope_original_context * frequency / (2 * std::numbers::pi);
  const double low = config.rope_low_freq_factor, high = config.rope_high_freq_factor;
  const double stays = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return stays * frequency + (1 - stays) * frequency / config.rope_factor;
}

}  // namespace

bool depend_on_length(const ModelConfig& config, std::int64_t length) {
  return config.rope_scaling == "dynamic" && length > config.rope_original_context;
}

std::vector<double> rotary_frequencies(const ModelConfig& config, std::int64_t length) {
  const int head = head_size(config);
  const double base = depend_on_length(config, length) ? dynamic_base(config, length) : config.rope_theta;
  std::vector<double> frequencies;
  for (int i = 0; i < head / 2; ++i) {
    double frequency = std::pow(base, -2.0 * i / head);
    if (config.rope_scaling == "linear") frequency /= config.rope_factor;
    if (config.rope_scaling == "llama3") frequency = llama3_frequency(config, frequency);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace twobw::architecture
