#ifndef PIPESTAGE_CLIENT_CLI_EVAL_REPORT_H_
#define PIPESTAGE_CLIENT_CLI_EVAL_REPORT_H_

#include <map>
#include <string>

#include "client/eval_call.h"

namespace pipestage {

// What is told of an Eval.
struct EvalReport {
  const EvalResult& result;
  double wall_s = 0;  // as the client saw it, transfer and all
  // Where each output was written; those not in it were not.
  std::map<std::string, std::string> output_files;
  bool timeline = false;
};

// For people: loss, microbatches, what ran, how long it took, outputs,
// timeline.
std::string EvalReportText(const EvalReport& report);

// For programs, one line. Numbers that are not finite are null.
std::string EvalReportJson(const EvalReport& report);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_EVAL_REPORT_H_
