#include "worker/link_writer.h"

#include <utility>

namespace pipestage {

LinkWriter::LinkWriter(Options options)
    : options_(options), thread_([this] { Loop(); }) {}

LinkWriter::~LinkWriter() {
  Close();
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void LinkWriter::Open(WriteFn write) {
  absl::MutexLock lock(&mu_);
  write_ = std::move(write);
}

void LinkWriter::Close() {
  absl::MutexLock lock(&mu_);
  Drop();
  mu_.Await(absl::Condition(this, &LinkWriter::IsIdle));
}

void LinkWriter::Drop() {
  write_ = nullptr;
  queue_.clear();
  queued_bytes_ = 0;
}

void LinkWriter::Send(v1::WorkerMessage message) {
  const size_t bytes = message.ByteSizeLong();
  absl::MutexLock lock(&mu_);
  if (bytes > options_.small_bytes) {
    mu_.Await(absl::Condition(this, &LinkWriter::HasRoom));
  } else if (write_ != nullptr && queue_.empty() && !writing_) {
    Write(&message);
    return;
  }
  if (write_ == nullptr) return;
  queued_bytes_ += bytes;
  queue_.push_back({std::move(message), bytes});
}

void LinkWriter::Write(const v1::WorkerMessage* message) {
  const WriteFn write = write_;
  writing_ = true;
  mu_.Unlock();
  const bool ok = write(message);
  mu_.Lock();
  writing_ = false;
  if (!ok) Drop();
}

void LinkWriter::Loop() {
  absl::MutexLock lock(&mu_);
  while (true) {
    mu_.Await(absl::Condition(this, &LinkWriter::MayWrite));
    if (stopping_) return;
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= next.bytes;
    Write(&next.message);
  }
}

bool LinkWriter::Finish(absl::Duration patience) {
  absl::MutexLock lock(&mu_);
  if (!mu_.AwaitWithTimeout(absl::Condition(this, &LinkWriter::IsFlushed),
                            patience)) {
    return false;
  }
  if (write_ != nullptr) Write(nullptr);
  Drop();
  return true;
}

}  // namespace pipestage
