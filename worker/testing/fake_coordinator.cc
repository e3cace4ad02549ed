#include "worker/testing/fake_coordinator.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace pipestage {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

}  // namespace

FakeCoordinator::FakeCoordinator(int num_ranks, int port)
    : num_ranks_(num_ranks) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                           grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(-1);
  server_ = builder.BuildAndStart();
  PIPESTAGE_CHECK(server_ != nullptr);
}

FakeCoordinator::~FakeCoordinator() {
  server_->Shutdown(std::chrono::system_clock::now());
}

std::string FakeCoordinator::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

void FakeCoordinator::Refuse(grpc::Status status) {
  absl::MutexLock lock(&mu_);
  refusal_ = std::move(status);
}

grpc::Status FakeCoordinator::Attach(grpc::ServerContext* context,
                                     Stream* stream) {
  v1::WorkerMessage message;
  if (!stream->Read(&message) || !message.has_hello()) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no hello");
  }
  int rank;
  {
    absl::MutexLock lock(&mu_);
    ++hellos_;
    if (!refusal_.ok()) return refusal_;
    rank = message.hello().requested_rank();
    if (rank < 0) rank = static_cast<int>(ranks_.size());
    ranks_[rank] = {stream, context, message.hello(), {}, {}};
    v1::CoordinatorMessage welcome;
    welcome.mutable_welcome()->set_rank(rank);
    welcome.mutable_welcome()->set_num_ranks(num_ranks_);
    stream->Write(welcome);
  }
  while (stream->Read(&message)) {
    absl::MutexLock lock(&mu_);
    OnMessage(rank, std::move(message));
    message.Clear();
  }
  absl::MutexLock lock(&mu_);
  if (ranks_[rank].stream == stream) ranks_[rank].stream = nullptr;
  return grpc::Status::OK;
}

void FakeCoordinator::OnMessage(int rank, v1::WorkerMessage message) {
  if (message.has_store_set()) {
    store_[message.store_set().key()] = message.store_set().value();
    AnswerGets();
  } else if (message.has_store_get()) {
    ranks_[rank].gets.push_back(message.store_get());
    AnswerGets();
  } else {
    ranks_[rank].messages.push_back(std::move(message));
  }
}

void FakeCoordinator::AnswerGets() {
  for (auto& [rank, attachment] : ranks_) {
    if (attachment.stream == nullptr) continue;
    std::vector<v1::StoreGet> open;
    for (const v1::StoreGet& get : attachment.gets) {
      const auto it = store_.find(get.key());
      if (it == store_.end()) {
        open.push_back(get);
        continue;
      }
      v1::CoordinatorMessage answer;
      answer.mutable_store_value()->set_request_id(get.request_id());
      answer.mutable_store_value()->set_value(it->second);
      attachment.stream->Write(answer);
    }
    attachment.gets = std::move(open);
  }
}

bool FakeCoordinator::AllAttached() const {
  int attached = 0;
  for (const auto& [rank, attachment] : ranks_) {
    if (attachment.stream != nullptr) ++attached;
  }
  return attached == num_ranks_;
}

bool FakeCoordinator::WaitForRanks() {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(
      absl::Condition(this, &FakeCoordinator::AllAttached), kPatience);
}

void FakeCoordinator::Send(int rank, const v1::CoordinatorMessage& message) {
  absl::MutexLock lock(&mu_);
  Stream* stream = ranks_[rank].stream;
  if (stream != nullptr) stream->Write(message);
}

void FakeCoordinator::Cut(int rank) {
  absl::MutexLock lock(&mu_);
  Attachment& attachment = ranks_[rank];
  if (attachment.stream == nullptr) return;
  attachment.stream = nullptr;
  attachment.context->TryCancel();
}

v1::WorkerMessage FakeCoordinator::Await(int rank, const Wanted& wanted) {
  absl::MutexLock lock(&mu_);
  std::optional<size_t> found;
  const auto is_there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto& messages = ranks_[rank].messages;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (!wanted(messages[i])) continue;
      found = i;
      return true;
    }
    return false;
  };
  if (!mu_.AwaitWithTimeout(absl::Condition(&is_there), kPatience)) return {};
  auto& messages = ranks_[rank].messages;
  v1::WorkerMessage message = std::move(messages[*found]);
  messages.erase(messages.begin(), messages.begin() + *found + 1);
  return message;
}

v1::WorkerMessage FakeCoordinator::Await(int rank,
                                         v1::WorkerMessage::KindCase kind) {
  return Await(rank, [kind](const v1::WorkerMessage& message) {
    return message.kind_case() == kind;
  });
}

int FakeCoordinator::hellos() const {
  absl::MutexLock lock(&mu_);
  return hellos_;
}

v1::Hello FakeCoordinator::hello(int rank) const {
  absl::MutexLock lock(&mu_);
  return ranks_.at(rank).hello;
}

absl::Status FakeCoordinator::Form(int64_t generation) {
  for (int r = 0; r < num_ranks_; ++r) {
    v1::CoordinatorMessage message;
    v1::FormCommunicator& form = *message.mutable_form_communicator();
    form.set_generation(generation);
    form.set_rank(r);
    form.set_num_ranks(num_ranks_);
    form.set_backend("inproc");
    form.set_store_prefix(absl::StrCat("generation", generation));
    form.set_timeout_s(10);
    Send(r, message);
  }
  for (int r = 0; r < num_ranks_; ++r) {
    const auto answer = Await(r, v1::WorkerMessage::kCommunicatorFormed);
    if (answer.communicator_formed().generation() != generation) {
      return absl::DeadlineExceededError("no answer to FormCommunicator");
    }
    PIPESTAGE_RETURN_IF_ERROR(
        FromRpcStatus(answer.communicator_formed().error()));
  }
  return absl::OkStatus();
}

absl::Status FakeCoordinator::Load(const std::string& model,
                                   const std::string& version,
                                   const std::string& digest,
                                   int stages_per_rank) {
  int64_t request;
  {
    absl::MutexLock lock(&mu_);
    request = next_request_++;
  }
  for (int r = 0; r < num_ranks_; ++r) {
    v1::CoordinatorMessage message;
    v1::LoadStages& load = *message.mutable_load_stages();
    load.set_request_id(request);
    load.set_model(model);
    load.set_version(version);
    load.set_digest(digest);
    for (int v = 0; v < stages_per_rank; ++v) {
      load.add_stages(v * num_ranks_ + r);
    }
    Send(r, message);
  }
  for (int r = 0; r < num_ranks_; ++r) {
    const auto answer = Await(r, v1::WorkerMessage::kStagesLoaded);
    if (answer.stages_loaded().request_id() != request) {
      return absl::DeadlineExceededError("no answer to LoadStages");
    }
    PIPESTAGE_RETURN_IF_ERROR(FromRpcStatus(answer.stages_loaded().error()));
  }
  return absl::OkStatus();
}

void FakeCoordinator::Install(const std::vector<RankPlan>& plans) {
  for (const RankPlan& plan : plans) {
    v1::CoordinatorMessage message;
    v1::RankPlan& wire = *message.mutable_install_plan()->mutable_plan();
    wire.set_plan_id(plan.id);
    wire.set_rank(plan.rank.value());
    wire.set_num_ranks(plan.num_ranks);
    wire.set_num_stages(plan.num_stages());
    wire.set_num_microbatches(plan.num_microbatches);
    for (Rank rank : plan.stage_ranks) wire.add_stage_ranks(rank.value());
    for (const Action& action : plan.actions) {
      wire.add_kinds(static_cast<v1::ActionKind>(action.kind));
      wire.add_stages(action.stage.value());
      wire.add_microbatches(action.microbatch.value());
    }
    Send(plan.rank.value(), message);
  }
}

}  // namespace pipestage
