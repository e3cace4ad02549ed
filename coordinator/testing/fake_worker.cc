#include "coordinator/testing/fake_worker.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error_info.h"
#include "base/grpc_status.h"
#include "base/log.h"
#include "proto/protocol_version.h"

namespace pipestage {
namespace {

std::vector<double> ToNumbers(absl::string_view bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

v1::Hello MakeHello(const FakeWorker::Options& options) {
  v1::Hello hello;
  hello.set_protocol_version(kWorkerLinkProtocolVersion);
  hello.set_name(options.name);
  hello.set_incarnation(options.incarnation);
  hello.set_requested_rank(options.requested_rank);
  hello.set_device("cpu");
  hello.set_feed_window_bytes(options.feed_window_bytes);
  for (const auto& backend : options.backends) hello.add_backends(backend);
  return hello;
}

// Microbatch `m`'s share of the bytes of a feed of several.
absl::string_view PartOf(const v1::FeedData& feed,
                         const Microbatches& microbatches, int m) {
  int64_t before = 0;
  int64_t all = 0;
  for (int i = 0; i < feed.num_microbatches(); ++i) {
    const int index = feed.first_microbatch() + i;
    const int64_t rows = microbatches.rows(MicrobatchIndex(index));
    if (index < m) before += rows;
    all += rows;
  }
  const int64_t row_bytes = static_cast<int64_t>(feed.data().size()) / all;
  return absl::string_view(feed.data())
      .substr(before * row_bytes,
              microbatches.rows(MicrobatchIndex(m)) * row_bytes);
}

}  // namespace

FakeWorker::FakeWorker(Options options) : options_(std::move(options)) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // A connection of its own, as a process would have.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(
      options_.address, grpc::InsecureChannelCredentials(), arguments);
  stub_ = v1::WorkerLink::NewStub(channel_);
  stream_ = stub_->Attach(&context_);
  v1::WorkerMessage message;
  *message.mutable_hello() = MakeHello(options_);
  Send(message);
  reader_ = std::thread([this] { Read(); });
  executor_ = std::thread([this] { Execute(); });
}

FakeWorker::~FakeWorker() {
  Kill();
  reader_.join();
  executor_.join();
}

void FakeWorker::Kill() { context_.TryCancel(); }

absl::Status FakeWorker::Wait() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&ended_));
  return end_status_;
}

void FakeWorker::Send(const v1::WorkerMessage& message) {
  absl::MutexLock lock(&write_mu_);
  stream_->Write(message);
}

int FakeWorker::Count(v1::CoordinatorMessage::KindCase kind) {
  absl::MutexLock lock(&mu_);
  return counts_[kind];
}

void FakeWorker::AwaitCount(v1::CoordinatorMessage::KindCase kind, int count) {
  absl::MutexLock lock(&mu_);
  const auto reached = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return counts_[kind] >= count || ended_;
  };
  mu_.Await(absl::Condition(&reached));
}

std::vector<v1::FeedData> FakeWorker::feeds() {
  absl::MutexLock lock(&mu_);
  return feeds_;
}

void FakeWorker::Read() {
  v1::CoordinatorMessage message;
  while (stream_->Read(&message)) {
    Handle(message);
    absl::MutexLock lock(&mu_);
    ++counts_[message.kind_case()];
  }
  const absl::Status status = FromGrpcStatus(stream_->Finish());
  absl::MutexLock lock(&mu_);
  ended_ = true;
  end_status_ = status;
  // Its neighbours' communicator breaks with it.
  options_.fabric->Abort(forming_.generation());
}

void FakeWorker::Handle(const v1::CoordinatorMessage& message) {
  switch (message.kind_case()) {
    case v1::CoordinatorMessage::kWelcome:
      rank_ = message.welcome().rank();
      return;
    case v1::CoordinatorMessage::kFormCommunicator:
      Form(message.form_communicator());
      return;
    case v1::CoordinatorMessage::kAbortCommunicator:
      options_.fabric->Abort(message.abort_communicator().generation());
      break;
    case v1::CoordinatorMessage::kLoadStages:
      Load(message.load_stages());
      return;
    case v1::CoordinatorMessage::kStoreValue:
      OnStoreValue(message.store_value());
      return;
    case v1::CoordinatorMessage::kPing: {
      if (!options_.answers_pings) return;
      v1::WorkerMessage pong;
      pong.mutable_pong()->set_sequence(message.ping().sequence());
      pong.mutable_pong()->set_resident_bytes(12345);
      {
        absl::MutexLock lock(&mu_);
        pong.mutable_pong()->set_calls(
            options_.forgets_calls ? 0 : static_cast<int>(known_runs_.size()));
      }
      Send(pong);
      return;
    }
    case v1::CoordinatorMessage::kShutdown:
      Kill();
      return;
    default:
      break;
  }
  absl::MutexLock lock(&mu_);
  if (message.has_install_plan()) {
    const auto plan = DecodeRankPlan(message.install_plan().plan());
    PIPESTAGE_CHECK(plan.ok());
    PIPESTAGE_CHECK(plans_.emplace(plan->id, *plan).second);
  } else if (message.has_forget_plan()) {
    plans_.erase(message.forget_plan().plan_id());
  } else if (message.has_run()) {
    last_call_ = message.run().call_id();
    known_runs_[message.run().call_id()] = message.run();
    for (const auto& feed : message.run().feeds()) TakeFeed(feed);
    runs_.push_back(message.run());
  } else if (message.has_feed()) {
    TakeFeed(message.feed());
  } else if (message.has_cancel()) {
    inboxes_[message.cancel().call_id()].cancelled = true;
  }
}

void FakeWorker::Form(const v1::FormCommunicator& form) {
  {
    absl::MutexLock lock(&mu_);
    forming_ = form;
    peers_met_ = 0;
  }
  v1::WorkerMessage message;
  auto* set = message.mutable_store_set();
  set->set_key(absl::StrCat(form.store_prefix(), "rank", form.rank()));
  set->set_value(options_.name);
  Send(message);
  for (int r = 0; r < form.num_ranks(); ++r) {
    v1::WorkerMessage request;
    request.mutable_store_get()->set_request_id(form.generation() * 1000 + r);
    request.mutable_store_get()->set_key(
        absl::StrCat(form.store_prefix(), "rank", r));
    Send(request);
  }
}

void FakeWorker::OnStoreValue(const v1::StoreValue& value) {
  v1::FormCommunicator forming;
  {
    absl::MutexLock lock(&mu_);
    if (value.request_id() / 1000 != forming_.generation()) return;
    if (++peers_met_ < forming_.num_ranks()) return;
    forming = forming_;
  }
  v1::WorkerMessage message;
  auto* formed = message.mutable_communicator_formed();
  formed->set_generation(forming.generation());
  const absl::Status status =
      options_.form ? options_.form() : absl::OkStatus();
  if (!status.ok()) *formed->mutable_error() = ToRpcStatus(status);
  Send(message);
}

void FakeWorker::Load(const v1::LoadStages& load) {
  absl::Status status = options_.load ? options_.load(load) : absl::OkStatus();
  auto package =
      ModelPackage::Open(options_.repository, load.model(), load.version());
  if (status.ok()) status = package.status();
  if (status.ok() && (*package)->digest() != load.digest()) {
    status = absl::FailedPreconditionError("another digest");
  }
  if (status.ok()) {
    absl::MutexLock lock(&mu_);
    packages_[{load.model(), load.version()}] = *package;
  }
  v1::WorkerMessage message;
  message.mutable_stages_loaded()->set_request_id(load.request_id());
  if (!status.ok()) {
    *message.mutable_stages_loaded()->mutable_error() = ToRpcStatus(status);
  }
  Send(message);
}

void FakeWorker::TakeFeed(const v1::FeedData& feed) {
  feeds_.push_back(feed);
  const v1::Run& run = known_runs_.at(feed.call_id());
  const auto& plan = plans_.at(run.plan_id());
  const auto microbatches =
      Microbatches::Create(run.rows(), plan.num_microbatches);
  Inbox& inbox = inboxes_[feed.call_id()];
  if (feed.num_microbatches() == 0) {
    inbox.parts[{feed.argument(), -1}] = ToNumbers(feed.data());
  }
  for (int i = 0; i < feed.num_microbatches(); ++i) {
    const int m = feed.first_microbatch() + i;
    inbox.parts[{feed.argument(), m}] =
        ToNumbers(PartOf(feed, *microbatches, m));
  }
}

std::optional<FakeWorker::Numbers> FakeWorker::AwaitPart(const Execution& call,
                                                         int argument,
                                                         int microbatch) {
  absl::MutexLock lock(&mu_);
  Inbox& inbox = inboxes_[call.run.call_id()];
  const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return inbox.cancelled || ended_ ||
           inbox.parts.count({argument, microbatch}) > 0;
  };
  mu_.Await(absl::Condition(&ready));
  if (inbox.cancelled || ended_) return std::nullopt;
  return inbox.parts.at({argument, microbatch});
}

void FakeWorker::Execute() {
  while (true) {
    v1::Run run;
    {
      absl::MutexLock lock(&mu_);
      const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return ended_ || !runs_.empty();
      };
      mu_.Await(absl::Condition(&ready));
      if (ended_) return;
      run = runs_.front();
      runs_.pop_front();
    }
    ExecuteRun(run);
  }
}

void FakeWorker::ExecuteRun(const v1::Run& run) {
  std::optional<Execution> execution;
  {
    absl::MutexLock lock(&mu_);
    const RankPlan plan = plans_.at(run.plan_id());
    execution.emplace(
        Execution{run, plan, packages_.at({run.model(), run.version()}),
                  *Microbatches::Create(run.rows(), plan.num_microbatches)});
  }
  for (const Action& action : execution->plan.actions) {
    Act(*execution, action);
    if (execution->aborted) return;  // the generation is over
  }
  execution->done.set_call_id(run.call_id());
  execution->done.set_complete(!execution->dead);
  execution->done.set_busy_s(1e-6);
  execution->done.set_wall_s(2e-6);
  SendOutputs(*execution);
  v1::WorkerMessage message;
  *message.mutable_call_done() = execution->done;
  if (!options_.forgets_calls) Send(message);
  absl::MutexLock lock(&mu_);
  inboxes_.erase(run.call_id());
  known_runs_.erase(run.call_id());
}

void FakeWorker::Act(Execution& call, const Action& action) {
  const int stage = action.stage.value();
  const int m = action.microbatch.value();
  FakeFabric::Key key{call.run.generation(), call.run.call_id(), stage, m};
  switch (action.kind) {
    case ActionKind::kRecvForward: {
      key.stage = stage - 1;
      auto received = options_.fabric->Take(key);
      call.aborted = !received.has_value();
      if (received) {
        call.dead |= !received->has_value();
        call.inputs[{stage, m}] = *std::move(received);
      }
      return;
    }
    case ActionKind::kForward:
      Forward(call, stage, m);
      return;
    case ActionKind::kSendForward:
      options_.fabric->Put(key,
                           call.dead ? std::nullopt : call.outputs[{stage, m}]);
      return;
    default:
      Fail(call, absl::InternalError("an Eval plan with other actions"));
  }
}

void FakeWorker::Forward(Execution& call, int stage, int m) {
  {
    absl::MutexLock lock(&mu_);
    call.dead |= inboxes_[call.run.call_id()].cancelled;
  }
  if (call.dead) return;
  if (options_.before_forward) {
    const absl::Status status = options_.before_forward(stage, m);
    if (!status.ok()) return Fail(call, status);
  }
  auto input = stage == 0 ? AwaitPart(call, 0, m) : call.inputs[{stage, m}];
  if (!input) {
    call.dead = true;
    return;
  }
  ++forwards_;
  for (double& x : *input) x = 10 * x + (stage + 1);
  if (!ApplyKeywords(call, stage, m, *input)) {
    call.dead = true;
  } else if (stage + 1 == call.plan.num_stages()) {
    call.dead |= !FinishMicrobatch(call, m, *input);
  } else if (call.plan.owner(StageIndex(stage + 1)).value() == rank_) {
    call.inputs[{stage + 1, m}] = std::move(input);
  } else {
    call.outputs[{stage, m}] = std::move(input);
  }
}

bool FakeWorker::ApplyKeywords(const Execution& call, int stage, int m,
                               Numbers& values) {
  const PackageContract& contract = call.package->contract();
  for (const std::string& name : contract.stages[stage].keyword_inputs) {
    const int argument = *contract.InputIndex(name);
    const auto part = AwaitPart(call, argument, name == "scale" ? -1 : m);
    if (!part) return false;
    for (size_t i = 0; i < values.size(); ++i) {
      if (name == "scale") values[i] *= part->at(0);
      if (name == "offset") values[i] += part->at(values.size() + i);
    }
  }
  return true;
}

bool FakeWorker::FinishMicrobatch(Execution& call, int m, const Numbers& y) {
  if (call.run.with_loss()) {
    const int argument =
        static_cast<int>(call.package->contract().inputs.size());
    const auto target = AwaitPart(call, argument, m);
    if (!target) return false;
    AddLoss(call, m, y, *target);
  }
  if (call.run.outputs_size() > 0) call.outputs[{-1, m}] = y;
  if (call.run.timeline()) {
    call.done.add_timeline_stages(call.plan.num_stages() - 1);
    call.done.add_timeline_microbatches(m);
    call.done.add_timeline_start_us(m * 10);
    call.done.add_timeline_end_us(m * 10 + 5);
  }
  return true;
}

void FakeWorker::AddLoss(Execution& call, int m, const Numbers& y,
                         const Numbers& target) {
  ExactSum sum;
  v1::LossReport report;
  report.set_call_id(call.run.call_id());
  report.set_first_microbatch(m);
  for (size_t i = 0; i < y.size(); ++i) {
    const double term = (y[i] - target[i]) * (y[i] - target[i]);
    sum.Add(term);
    if (!call.run.row_losses()) continue;
    report.add_row_sums(term);
    report.add_row_weights(1);
  }
  for (const double partial : sum.partials()) report.add_partials(partial);
  report.add_partial_counts(report.partials_size());
  report.add_weights(static_cast<int64_t>(y.size()));
  report.add_nonfinite(0);
  if (call.run.report_progress()) {
    v1::WorkerMessage message;
    *message.mutable_losses() = report;
    Send(message);
    return;
  }
  // Forwards of the last stage run in order, so that reports follow each other.
  v1::LossReport& all = *call.done.mutable_losses();
  if (all.weights().empty()) {
    all = report;
  } else {
    all.MergeFrom(report);
    all.set_first_microbatch(0);
  }
}

void FakeWorker::Fail(Execution& call, const absl::Status& error) {
  call.dead = true;
  v1::WorkerMessage message;
  message.mutable_call_failed()->set_call_id(call.run.call_id());
  *message.mutable_call_failed()->mutable_error() = ToRpcStatus(error);
  Send(message);
}

void FakeWorker::SendOutputs(Execution& call) {
  if (call.dead) return;
  size_t bytes = 0;
  for (const auto& [key, y] : call.outputs) {
    if (key.first == -1) bytes += y->size() * sizeof(double);
  }
  for (const auto& [key, y] : call.outputs) {
    if (key.first != -1) continue;
    v1::WorkerMessage message;
    v1::OutputData& output = bytes > options_.riding_bytes
                                 ? *message.mutable_output()
                                 : *call.done.add_outputs();
    output.set_call_id(call.run.call_id());
    output.set_first_microbatch(key.second);
    output.set_num_microbatches(1);
    output.set_data(y->data(), y->size() * sizeof(double));
    if (message.has_output()) Send(message);
  }
}

}  // namespace pipestage
