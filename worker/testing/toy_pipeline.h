#ifndef PIPESTAGE_WORKER_TESTING_TOY_PIPELINE_H_
#define PIPESTAGE_WORKER_TESTING_TOY_PIPELINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "schedule/plan.h"

namespace pipestage {

struct ToyStageSpec {
  std::string module = "digit";
  std::string params = "{}";
  std::vector<std::string> keywords = {};
  std::string output_dtype = "";  // empty: the pipeline's
};

// A model of toy stages (toy_stage.h) over one input "x" of shape [rows,
// width].
struct ToyPipeline {
  std::string name = "toy";
  std::string version = "1";
  std::vector<ToyStageSpec> stages;
  std::string dtype = "float64";
  int width = 1;
  // Keyword inputs: 0-dim and replicated, or split as x is.
  std::vector<std::string> scalars = {};
  std::vector<std::string> positions = {};
  // "" (none), "mse" (against target "t", of the output's shape) or "row_loss".
  std::string loss = "row_loss";
};

// `count` digit stages, s = 1, 2 ...: row i becomes the digits i 1 2 3 ...
ToyPipeline DigitPipeline(int count);

std::string ToyPipelineJson(const ToyPipeline& pipeline);

// Writes <repository>/<name>/<version>/pipeline.json; returns its digest.
absl::StatusOr<std::string> WriteToyPackage(const std::string& repository,
                                            const ToyPipeline& pipeline);

// The plans of P ranks with V stages each, stage s on rank s mod P, for M
// microbatches; depth first: in groups of P microbatches, or breadth first.
std::vector<RankPlan> MakeToyPlans(int num_ranks, int stages_per_rank,
                                   int num_microbatches,
                                   bool depth_first = false);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TESTING_TOY_PIPELINE_H_
