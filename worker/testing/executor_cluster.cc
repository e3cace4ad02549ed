#include "worker/testing/executor_cluster.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "tensor/microbatches.h"
#include "worker/transport/in_memory_rendezvous.h"
#include "worker/transport/inproc_communicator.h"

namespace pipestage {
namespace {

// Keeps what a rank's part of a call gives.
class RecordingSink : public ResultSink {
 public:
  void Fail(absl::Status error) override { failure = std::move(error); }
  absl::Status AddLoss(MicrobatchIndex m, MicrobatchLossValue value) override {
    loss.Add(value.total);
    return absl::OkStatus();
  }
  absl::Status AddOutput(MicrobatchIndex m, int output,
                         const StageTensor& tensor) override {
    if (output == 0) outputs.emplace_back(m.value(), tensor);
    return absl::OkStatus();
  }

  absl::Status failure;
  LossSum loss;
  std::vector<std::pair<int, StageTensor>> outputs;
};

std::string Bytes(const StageTensor& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.data.data()),
                     tensor.data.size());
}

}  // namespace

struct ExecutorCluster::Node {
  std::unique_ptr<ToyStageLoader> loader;
  std::shared_ptr<const LoadedModel> model;
  std::unique_ptr<ReceiveBuffers> buffers;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<PlanExecutor> executor;
};

std::vector<double> ToyResult::y() const {
  auto sorted = outputs;
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<double> elements;
  for (const auto& [m, tensor] : sorted) {
    const std::vector<double> part = ToyElements(tensor);
    elements.insert(elements.end(), part.begin(), part.end());
  }
  return elements;
}

bool ToyResult::complete() const {
  return std::all_of(outcomes.begin(), outcomes.end(),
                     [](const auto& o) { return o.ok() && o->complete; });
}

ExecutorCluster::ExecutorCluster(const ToyPipeline& pipeline, Options options)
    : pipeline_(pipeline), options_(std::move(options)) {
  auto contract = ParseContract(ToyPipelineJson(pipeline));
  PIPESTAGE_CHECK(contract.ok());
  contract_ = std::make_shared<PackageContract>(*std::move(contract));
  InMemoryRendezvous rendezvous;
  std::vector<std::thread> threads;
  for (int r = 0; r < options_.num_ranks; ++r) {
    nodes_.push_back(std::make_unique<Node>());
  }
  for (int r = 0; r < options_.num_ranks; ++r) {
    threads.emplace_back([this, r, &rendezvous] {
      Node& node = *nodes_[r];
      node.loader = std::make_unique<ToyStageLoader>(options_.before_forward);
      auto model = std::make_shared<LoadedModel>();
      model->contract = contract_;
      model->stages.resize(contract_->stages.size());
      for (int s = r; s < model->stages.size(); s += options_.num_ranks) {
        model->stages[s] =
            *MakeToyStage(contract_->stages[s], options_.before_forward);
      }
      if (contract_->loss.has_value()) model->loss = *MakeToyLoss(*contract_);
      node.model = std::move(model);
      node.buffers = std::make_unique<ReceiveBuffers>(
          [&node](size_t size) { return node.loader->Allocate(size); },
          64 << 20);
      CommunicatorOptions communicator;
      communicator.rank = Rank(r);
      communicator.size = options_.num_ranks;
      communicator.generation = Generation(1);
      communicator.timeout = absl::Seconds(20);
      communicator.prefix = "toy";
      communicator.rendezvous = &rendezvous;
      auto made = InprocCommunicator::Create(communicator);
      PIPESTAGE_CHECK(made.ok());
      node.communicator = *std::move(made);
      if (options_.decorate) {
        node.communicator = options_.decorate(std::move(node.communicator));
      }
      PlanExecutor::Options executor = options_.executor;
      executor.worker = absl::StrCat("w", r);
      node.executor = std::make_unique<PlanExecutor>(
          executor, node.communicator.get(), node.loader.get(),
          node.buffers.get(), Clock::Real());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

ExecutorCluster::~ExecutorCluster() {
  for (auto& node : nodes_) {
    node->communicator->Abort(absl::CancelledError("the test is over"));
  }
  for (auto& node : nodes_) node->executor.reset();
}

void ExecutorCluster::Prepare(const std::vector<ToyCall>& calls) {
  inboxes_.clear();
  for (size_t n = 0; n < calls.size(); ++n) {
    auto& inboxes = inboxes_.emplace_back();
    const CallId id(next_call_++);
    for (int r = 0; r < options_.num_ranks; ++r) {
      inboxes.push_back(
          std::make_shared<CallInbox>(id, FeedWindow::Unbounded()));
    }
    if (calls[n].feed) Feed(calls[n], static_cast<int>(n));
  }
}

void ExecutorCluster::Feed(const ToyCall& call, int n) {
  const int64_t rows = call.x.size() / pipeline_.width;
  const auto microbatches = *Microbatches::Create(rows, call.num_microbatches);
  const auto feed = [&](int argument, int m, DType dtype,
                        absl::Span<const double> elements) {
    for (auto& inbox : inboxes_[n]) {
      v1::FeedData data;
      data.set_argument(argument);
      data.set_first_microbatch(std::max(m, 0));
      data.set_num_microbatches(m < 0 ? 0 : 1);
      data.set_data(Bytes(MakeToyTensor(dtype, {}, elements)));
      inbox->AddFeed(std::move(data));
    }
  };
  const auto feed_split = [&](int argument, DType dtype,
                              const std::vector<double>& all) {
    for (int m = 0; m < microbatches.count(); ++m) {
      const MicrobatchIndex index(m);
      feed(argument, m, dtype,
           absl::MakeSpan(all).subspan(
               microbatches.first_row(index) * pipeline_.width,
               microbatches.rows(index) * pipeline_.width));
    }
  };
  for (size_t i = 0; i < contract_->inputs.size(); ++i) {
    const TensorContract& input = contract_->inputs[i];
    if (input.name == "x") {
      feed_split(i, input.dtype, call.x);
    } else if (!input.axis.has_value()) {
      feed(i, -1, input.dtype, {call.scalars.at(input.name)});
    } else {
      feed_split(i, input.dtype, call.positions.at(input.name));
    }
  }
  if (!call.t.empty()) {
    feed_split(contract_->inputs.size(), contract_->targets[0].dtype, call.t);
  }
}

PreparedCall ExecutorCluster::MakeCall(const ToyCall& call, int n, int rank) {
  PreparedCall prepared;
  prepared.generation = Generation(1);
  prepared.inbox = inboxes_[n][rank];
  prepared.plan = std::make_shared<RankPlan>(
      MakeToyPlans(options_.num_ranks, options_.stages_per_rank,
                   call.num_microbatches, call.depth_first)[rank]);
  prepared.model = nodes_[rank]->model;
  auto plan = PreparedPlan::Create(*prepared.plan, *contract_);
  PIPESTAGE_CHECK(plan.ok());
  prepared.prepared = *std::move(plan);
  auto shapes =
      CallShapes::Resolve(*contract_, Sizes(), call.x.size() / pipeline_.width,
                          call.num_microbatches);
  PIPESTAGE_CHECK(shapes.ok());
  prepared.shapes = *std::move(shapes);
  prepared.wishes = call.wishes;
  return prepared;
}

void ExecutorCluster::RunRank(const std::vector<ToyCall>& calls, int rank,
                              std::vector<ToyResult>& results) {
  PlanExecutor& executor = *nodes_[rank]->executor;
  std::deque<PreparedCall> announced;
  size_t next = 0;
  const auto announce_next = [&]() -> absl::Status {
    if (next == calls.size() || announced.size() == 2) return absl::OkStatus();
    announced.push_back(MakeCall(calls[next], static_cast<int>(next), rank));
    ++next;
    return executor.Announce(announced.back());
  };
  for (size_t n = 0; n < calls.size(); ++n) {
    absl::Status status;
    if (announced.empty()) status = announce_next();
    RecordingSink sink;
    ToyResult& result = results[n];
    absl::StatusOr<CallOutcome> outcome = CallOutcome();
    if (!status.ok()) {
      outcome = status;
    } else {
      outcome = executor.Execute(announced.front(), sink, announce_next);
    }
    announced.pop_front();
    result.outcomes[rank] = outcome;
    result.failures[rank] = sink.failure;
    if (rank == options_.num_ranks - 1) {
      result.outputs = std::move(sink.outputs);
      result.loss = sink.loss;
    }
    if (outcome.ok()) continue;
    nodes_[rank]->communicator->Abort(outcome.status());
    return;
  }
}

std::vector<ToyResult> ExecutorCluster::Run(const std::vector<ToyCall>& calls,
                                            std::function<void()> during) {
  if (inboxes_.empty()) Prepare(calls);
  std::vector<ToyResult> results(calls.size());
  for (ToyResult& result : results) {
    result.outcomes.assign(options_.num_ranks,
                           absl::UnknownError("not reached"));
    result.failures.resize(options_.num_ranks);
  }
  std::vector<std::thread> threads;
  for (int r = 0; r < options_.num_ranks; ++r) {
    threads.emplace_back([&, r] { RunRank(calls, r, results); });
  }
  during();
  for (std::thread& thread : threads) thread.join();
  inboxes_.clear();
  return results;
}

const ReceiveBuffers& ExecutorCluster::buffers(int rank) const {
  return *nodes_[rank]->buffers;
}
const PlanExecutor& ExecutorCluster::executor(int rank) const {
  return *nodes_[rank]->executor;
}
Communicator& ExecutorCluster::communicator(int rank) {
  return *nodes_[rank]->communicator;
}

}  // namespace pipestage
