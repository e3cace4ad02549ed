#include "worker/testing/toy_pipeline.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "package/model_package.h"

namespace pipestage {
namespace {

using Json = nlohmann::json;

Json TensorJson(const std::string& name, const std::string& dtype, Json shape,
                Json axis) {
  return {{"name", name}, {"dtype", dtype}, {"shape", shape}, {"axis", axis}};
}

// The outputs of one stage, which are the inputs of the next.
Json OutputsJson(const ToyPipeline& pipeline, const ToyStageSpec& stage,
                 const Json& inputs, bool last) {
  const std::string dtype =
      stage.output_dtype.empty() ? pipeline.dtype : stage.output_dtype;
  Json rows = stage.module == "odd_rows" ? "?" : "rows";
  const Json shape = {rows, pipeline.width};
  Json outputs = {TensorJson(last ? "y" : "h", dtype, shape, 0)};
  if (stage.module == "pair") {
    outputs.push_back(TensorJson("h2", dtype, shape, 0));
  }
  return outputs;
}

Json LossJson(const std::string& loss) {
  if (loss == "mse") {
    return {
        {"kind", "mean_squared_error"}, {"prediction", "y"}, {"target", "t"}};
  }
  return {
      {"kind", "program"},
      {"program",
       {{"kind", "module"}, {"name", "row_loss"}, {"params", Json::object()}}},
      {"inputs", {"y"}}};
}

Action ActionOf(ActionKind kind, int stage, int microbatch) {
  return {StageIndex(stage), kind, MicrobatchIndex(microbatch)};
}

}  // namespace

ToyPipeline DigitPipeline(int count) {
  ToyPipeline pipeline;
  for (int s = 1; s <= count; ++s) {
    pipeline.stages.push_back({"digit", absl::StrCat("{\"s\":", s, "}")});
  }
  return pipeline;
}

std::string ToyPipelineJson(const ToyPipeline& pipeline) {
  const Json shape = {"rows", pipeline.width};
  Json inputs = {TensorJson("x", pipeline.dtype, shape, 0)};
  for (const std::string& name : pipeline.scalars) {
    inputs.push_back(TensorJson(name, pipeline.dtype, Json::array(), nullptr));
  }
  for (const std::string& name : pipeline.positions) {
    inputs.push_back(TensorJson(name, pipeline.dtype, shape, 0));
  }
  Json stages = Json::array();
  Json boundary = {inputs[0]};
  for (const ToyStageSpec& stage : pipeline.stages) {
    const bool last = &stage == &pipeline.stages.back();
    const Json outputs = OutputsJson(pipeline, stage, boundary, last);
    stages.push_back({{"program",
                       {{"kind", "module"},
                        {"name", stage.module},
                        {"params", Json::parse(stage.params)}}},
                      {"inputs", boundary},
                      {"keyword_inputs", stage.keywords},
                      {"outputs", outputs}});
    boundary = outputs;
  }
  Json json = {{"format", "pipestage.pipeline/1"},
               {"name", pipeline.name},
               {"version", pipeline.version},
               {"inputs", inputs},
               {"outputs", boundary},
               {"stages", stages},
               {"files", Json::object()}};
  if (pipeline.loss == "mse") {
    Json target = boundary[0];
    target["name"] = "t";
    json["targets"] = Json::array({target});
  }
  if (!pipeline.loss.empty()) json["loss"] = LossJson(pipeline.loss);
  return json.dump(1);
}

absl::StatusOr<std::string> WriteToyPackage(const std::string& repository,
                                            const ToyPipeline& pipeline) {
  const auto directory =
      std::filesystem::path(repository) / pipeline.name / pipeline.version;
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "pipeline.json") << ToyPipelineJson(pipeline);
  PIPESTAGE_ASSIGN_OR_RETURN(
      auto package,
      ModelPackage::Open(repository, pipeline.name, pipeline.version));
  return package->digest();
}

std::vector<RankPlan> MakeToyPlans(int num_ranks, int stages_per_rank,
                                   int num_microbatches, bool depth_first) {
  const int num_stages = num_ranks * stages_per_rank;
  const int group = depth_first ? num_ranks : num_microbatches;
  std::vector<RankPlan> plans(num_ranks);
  for (int r = 0; r < num_ranks; ++r) {
    RankPlan& plan = plans[r];
    plan.id = absl::StrCat("toy-", num_ranks, "-", stages_per_rank, "-",
                           num_microbatches, depth_first ? "-d" : "-b");
    plan.rank = Rank(r);
    plan.num_ranks = num_ranks;
    plan.num_microbatches = num_microbatches;
    for (int s = 0; s < num_stages; ++s) {
      plan.stage_ranks.push_back(Rank(s % num_ranks));
    }
    for (int first = 0; first < num_microbatches; first += group) {
      const int end = std::min(first + group, num_microbatches);
      for (int s = r; s < num_stages; s += num_ranks) {
        for (int m = first; m < end; ++m) {
          const bool local = num_ranks == 1;
          if (s > 0 && !local) {
            plan.actions.push_back(ActionOf(ActionKind::kRecvForward, s, m));
          }
          plan.actions.push_back(ActionOf(ActionKind::kForward, s, m));
          if (s + 1 < num_stages && !local) {
            plan.actions.push_back(ActionOf(ActionKind::kSendForward, s, m));
          }
        }
      }
    }
  }
  return plans;
}

}  // namespace pipestage
