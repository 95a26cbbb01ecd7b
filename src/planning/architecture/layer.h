// Model as a list of layers, as values: parameters, inputs from the batch, computation, memory. The planner
// reads it, engine/weights lays it out in memory, engine/models attaches the forwards.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::architecture {

// Tensors of a microbatch. A stage receives the fields that its layers read.
enum class Field {
  Tokens,      // [sequences, context], int64
  Targets,     // [sequences, context], int64: class to predict; below 0: ignored
  TokenTypes,  // [sequences, context], int64: segment of a pair
  Positions,   // [sequences, context], int64: position within the document
  Lengths,     // [sequences], int64: length without padding
  Labels,      // [sequences], int64: class to predict; below 0: ignored
  Values,      // [sequences], double: value to predict; NaN: ignored
  LossScale,   // [1], double: 1 / number of targets (or labels) of the whole update, over all replicas
  LabelScale,  // [1], double: 1 / number of labels, if the loss has targets too
};
inline constexpr std::array kFields = {Field::Tokens,    Field::Targets,   Field::TokenTypes,
                                       Field::Positions, Field::Lengths,   Field::Labels,
                                       Field::Values,    Field::LossScale, Field::LabelScale};

std::string_view name(Field field);

// Number of elements, of 8 bytes each.
std::int64_t count_of(Field field, std::int64_t sequences, std::int64_t context);

// Set of fields.
class BatchFields {
 public:
  constexpr BatchFields() = default;
  constexpr BatchFields(std::initializer_list<Field> fields) {
    for (const Field field : fields) bits_ |= bit(field);
  }

  constexpr bool has(Field field) const { return (bits_ & bit(field)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr BatchFields operator|(BatchFields other) const {
    other.bits_ |= bits_;
    return other;
  }
  constexpr BatchFields operator&(BatchFields other) const {
    other.bits_ &= bits_;
    return other;
  }
  constexpr BatchFields without(BatchFields other) const {
    other.bits_ = bits_ & ~other.bits_;
    return other;
  }
  constexpr bool operator==(const BatchFields&) const = default;

  // Elements of all fields.
  std::int64_t count(std::int64_t sequences, std::int64_t context) const;

 private:
  static constexpr unsigned bit(Field field) { return 1U << static_cast<unsigned>(field); }
  unsigned bits_ = 0;
};

// Fields of a loss.
inline constexpr BatchFields kTokenLoss = {Field::Targets, Field::LossScale};
inline constexpr BatchFields kSequenceLoss = {Field::Labels, Field::LossScale};
inline constexpr BatchFields kRegressionLoss = {Field::Values, Field::LossScale};
inline constexpr BatchFields kTokenAndSequenceLoss = {Field::Targets, Field::LossScale, Field::Labels,
                                                      Field::LabelScale};
// Fields whose valid entries a loss counts.
inline constexpr BatchFields kCounted = {Field::Targets, Field::Labels, Field::Values};
// Fields that are computed from a whole update, not read from the data.
inline constexpr BatchFields kScales = {Field::LossScale, Field::LabelScale};

struct Parameter {
  std::string name;  // unique in the model
  std::vector<std::int64_t> shape;
  double init_std = 0.0;  // normal around init_mean
  double init_mean = 0.0;
  bool decay = true;      // weight decay applies; false for biases and norms
  std::string tied_to{};  // shares the weights of that parameter; gradients are summed
  // Rows of the stacked matrices between hidden activations, such as three for fused queries, keys and
  // values; empty for embeddings, heads and vectors. For optimizers of matrices, such as Muon.
  std::vector<std::int64_t> matrices{};

  std::int64_t count() const;  // elements
  // Name of the shared weights of a tie.
  const std::string& group_name() const { return tied_to.empty() ? name : tied_to; }
};

// The size of a microbatch.
struct Extent {
  double sequences = 1;
  double context = 1;  // tokens in a sequence
  double element = 4;  // bytes of an activation's element
};

inline constexpr double kStatisticBytes = 4;  // norms and softmax keep floats in any precision
inline constexpr double kIndexBytes = 8;

// Computation and memory of a layer in the forward of one microbatch, on any device.
struct Work {
  // Matrix products and element-wise work (norms, activations, sums, gathers) run one after the other.
  double matrix_flops = 0;
  double matrix_bytes = 0;   // activations that the products read and write
  double element_bytes = 0;  // bytes that element-wise work reads and writes

  // Bytes. `saved_bytes`: allocated in the forward and live until the backward, including `kept`, the outputs that
  // the next layer keeps. `output`: passed to the next layer. `working`: temporary use in the forward or the
  // backward, on top of saved_bytes - kept.
  double saved_bytes = 0;
  double kept = 0;
  double output = 0;
  double working = 0;

  Work times(double factor) const;
};

struct Layer {
  std::string kind;  // "attention_in", "mlp_up", "head"; layers of one kind and shape take the same time
  std::vector<Parameter> parameters = {};
  BatchFields takes = {};  // all fields that its forward reads
  // The forward already accumulates parameter gradients, as in a head that never holds all logits. Only for
  // the last layer.
  bool gradients_in_forward = false;
  // Empty: unknown; the planner uses measured times alone.
  std::function<Work(const Extent& extent)> work = {};
};

// Layers in execution order. The first one reads only the batch; the last one outputs the loss, the sum over
// the labels of the microbatch times the loss scale. The losses of the microbatches of an update add up to
// the mean over its labels. A loss may be two such sums with separate scales: the loss of an update is then
// the sum of two means.
using Model = std::vector<Layer>;

double parameter_count(const Layer& layer);        // tied copies included
std::int64_t parameter_count(const Model& model);  // tied weights count once

// The kind of every layer, in order.
std::vector<std::string> kinds_of(const Model& model);

// Fields that layers [first, last) read.
BatchFields taken_by(const Model& model, int first, int last);

// "42 layers: embedding, 8 x (attention_in, attention_out, mlp_up, mlp_activation, mlp_down), head".
std::string describe(const Model& model);

}  // namespace twobw::architecture
