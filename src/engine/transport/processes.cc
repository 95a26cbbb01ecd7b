#include "engine/transport/processes.h"

#include "core/base/codec.h"
#include "core/base/error.h"

namespace twobw::transport {

Processes::Processes(std::unique_ptr<control::Control> control)
    : control_(std::move(control)), mail_(*control_) {
  for (const Topic topic : {Topic::Gate, Topic::Norms, Topic::Update, Topic::Evaluation, Topic::Other})
    control_->on(topic, [this, topic](int from, std::string_view bytes) { handle(topic, from, bytes); });
  control_->on_abort([this](const control::Failure& failure) { handle_abort(failure); });
}

Processes::~Processes() = default;

void Processes::set_wires(Wires wires) {
  std::lock_guard lock(mutex_);
  wires_ = std::move(wires);
  if (failure_) end_waits();
}

int Processes::attach(Receiver receiver) {
  std::lock_guard lock(mutex_);
  TWOBW_ASSERT(!receiver_, "a pipeline between processes before the last one is gone");
  receiver_ = std::move(receiver);
  const int number = pipelines_++;
  if (failure_) receiver_->on_abort(*failure_);
  while (!early_.empty() && early_.front().pipeline == number) {
    const EarlyMessage& message = early_.front();
    receiver_->on_message(message.topic, message.from, message.body);
    early_.pop_front();
  }
  return number;
}

void Processes::detach() {
  std::lock_guard lock(mutex_);
  receiver_.reset();
}

// Messages for a pipeline that has ended are dropped.
void Processes::handle(Topic topic, int from, std::string_view bytes) {
  Decoder decoder(bytes);
  const int pipeline = decoder.take<int>();
  std::lock_guard lock(mutex_);
  if (pipeline >= pipelines_) {
    early_.push_back({pipeline, topic, from, std::string(decoder.rest())});
  } else if (receiver_ && pipeline == pipelines_ - 1) {
    receiver_->on_message(topic, from, decoder.rest());
  }
}

std::string Processes::addressed(std::string_view body) const {
  std::lock_guard lock(mutex_);
  return to_bytes(pipelines_ - 1).append(body);
}

void Processes::send(int to, Topic topic, std::string_view body) {
  control_->send(to, topic, addressed(body));
}

void Processes::send_to_others(Topic topic, std::string_view body) {
  control_->send_to_others(topic, addressed(body));
}

void Processes::end_waits() {
  for (const auto* wire :
       {&wires_.activations, &wires_.gradients, &wires_.exchange, &wires_.answers, &wires_.state}) {
    if (*wire) (*wire)->abort();
  }
}

void Processes::handle_abort(const control::Failure& failure) {
  std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = failure;
  end_waits();
  mail_.end(failure);
  if (receiver_) receiver_->on_abort(failure);
}

std::optional<control::Failure> Processes::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Processes::abort(const control::Failure& failure) {
  control_->abort(failure);
  handle_abort(failure);  // whether or not the control calls back the rank that aborts
}

}  // namespace twobw::transport
