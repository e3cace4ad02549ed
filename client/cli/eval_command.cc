#include "client/cli/eval_command.h"

#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cli/arguments.h"
#include "client/cli/eval_report.h"
#include "client/cli/progress.h"
#include "client/tensor_file.h"
#include "tensor/tensor_codec.h"

namespace pipestage {
namespace {

struct EvalFlags {
  std::string model;
  std::vector<std::string> inputs;
  std::vector<std::string> targets;
  int microbatches = 0;
  int microbatch_rows = 0;
  std::string schedule;
  bool no_outputs = false;
  std::string outputs_dir;
  std::string output_file;
  std::vector<std::string> output_names;
  std::string row_losses;
  bool timeline = false;
  bool progress = false;
  std::string format = "text";
};

void AddFlags(CLI::App& app, EvalFlags& flags) {
  app.add_option("--model", flags.model, "NAME, or NAME@VERSION")
      ->required()
      ->check(CheckModelRef);
  app.add_option("--input", flags.inputs,
                 "NAME=FILE.npy or NAME=FILE.safetensors[:TENSOR]; repeat it "
                 "for each input")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CheckNamedFile);
  app.add_option("--target", flags.targets, "the same for each target")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CheckNamedFile);
  CLI::Option* microbatches =
      app.add_option("--microbatches", flags.microbatches,
                     "how many; lowered to the number of rows")
          ->check(CLI::PositiveNumber);
  app.add_option("--microbatch-rows", flags.microbatch_rows,
                 "rows of each, instead")
      ->check(CLI::PositiveNumber)
      ->excludes(microbatches);
  app.add_option("--schedule", flags.schedule,
                 "1F1B, GPipe, Interleaved1F1B, LoopedBFS, in any case");
  CLI::Option* no_outputs = app.add_flag("--no-outputs", flags.no_outputs,
                                         "loss only: outputs stay where they "
                                         "are");
  CLI::Option* outputs_dir =
      app.add_option("--outputs-dir", flags.outputs_dir,
                     "write each output to DIR/NAME.npy (bfloat16: "
                     ".safetensors)")
          ->excludes(no_outputs);
  app.add_option("--output-file", flags.output_file,
                 "write all outputs to one FILE.safetensors")
      ->excludes(no_outputs)
      ->excludes(outputs_dir);
  app.add_option("--output-names", flags.output_names,
                 "only these outputs, NAME,NAME,...")
      ->delimiter(',')
      ->excludes(no_outputs);
  app.add_option("--row-losses", flags.row_losses,
                 "write loss sum and weight of each row, as row_losses and "
                 "row_weights, to FILE.safetensors");
  app.add_flag("--timeline", flags.timeline, "draw what each worker ran");
  app.add_flag("--progress", flags.progress,
               "a line on standard error for each microbatch");
  app.add_option("--output", flags.format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
}

absl::Status ReadTensors(const std::vector<std::string>& arguments,
                         absl::string_view what,
                         std::map<std::string, HostTensor>& tensors) {
  for (const std::string& argument : arguments) {
    PIPESTAGE_ASSIGN_OR_RETURN(const NamedFile named, ParseNamedFile(argument));
    PIPESTAGE_ASSIGN_OR_RETURN(HostTensor tensor,
                               ReadTensorFile(named.file, named.name));
    if (!tensors.emplace(named.name, std::move(tensor)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " \"", named.name, "\" is given twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<EvalInput> MakeInput(const EvalFlags& flags) {
  EvalInput input;
  PIPESTAGE_ASSIGN_OR_RETURN(input.model, ParseModelRef(flags.model));
  PIPESTAGE_RETURN_IF_ERROR(ReadTensors(flags.inputs, "input", input.inputs));
  PIPESTAGE_RETURN_IF_ERROR(
      ReadTensors(flags.targets, "target", input.targets));
  v1::CallOptions& options = input.options;
  if (flags.microbatches > 0) options.set_num_microbatches(flags.microbatches);
  if (flags.microbatch_rows > 0) {
    options.set_microbatch_rows(flags.microbatch_rows);
  }
  options.set_schedule(flags.schedule);
  options.set_return_outputs(!flags.no_outputs);
  for (const std::string& name : flags.output_names) options.add_outputs(name);
  options.set_return_row_losses(!flags.row_losses.empty());
  options.set_return_timeline(flags.timeline);
  return input;
}

// What would fail after the call had better fail before it.
absl::Status PrepareFiles(const EvalFlags& flags) {
  for (const std::string& file : {flags.output_file, flags.row_losses}) {
    if (!file.empty() && !absl::EndsWith(file, ".safetensors")) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": the name must end with .safetensors"));
    }
  }
  if (flags.outputs_dir.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(flags.outputs_dir, error);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot make ", flags.outputs_dir, ": ", error.message()));
}

// The file of output `name` in `folder`. Names come from the server: they must
// not lead elsewhere.
absl::StatusOr<std::string> FileOfOutput(const std::string& folder,
                                         const std::string& name, DType dtype) {
  if (name.empty() || name[0] == '.' || absl::StrContains(name, '/')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "output \"", name, "\" cannot be a file's name; use --output-file"));
  }
  return absl::StrCat(folder, "/", name,
                      dtype == DType::kBFloat16 ? ".safetensors" : ".npy");
}

absl::Status WriteOutputs(const EvalFlags& flags,
                          const std::map<std::string, HostTensor>& outputs,
                          std::map<std::string, std::string>& files) {
  if (!flags.output_file.empty()) {
    PIPESTAGE_RETURN_IF_ERROR(WriteSafetensorsFile(flags.output_file, outputs));
    for (const auto& [name, tensor] : outputs) files[name] = flags.output_file;
  }
  if (flags.outputs_dir.empty()) return absl::OkStatus();
  for (const auto& [name, tensor] : outputs) {
    PIPESTAGE_ASSIGN_OR_RETURN(
        const std::string file,
        FileOfOutput(flags.outputs_dir, name, tensor.dtype));
    PIPESTAGE_RETURN_IF_ERROR(tensor.dtype == DType::kBFloat16
                                  ? WriteSafetensorsFile(file, {{name, tensor}})
                                  : WriteNpyFile(file, tensor));
    files[name] = file;
  }
  return absl::OkStatus();
}

absl::Status WriteRowLosses(const EvalFlags& flags,
                            const v1::EvalResponse& summary) {
  if (flags.row_losses.empty()) return absl::OkStatus();
  PIPESTAGE_ASSIGN_OR_RETURN(HostTensor losses,
                             DecodeTensor("row_losses", summary.row_losses()));
  PIPESTAGE_ASSIGN_OR_RETURN(
      HostTensor weights, DecodeTensor("row_weights", summary.row_weights()));
  return WriteSafetensorsFile(
      flags.row_losses, {{"row_losses", losses}, {"row_weights", weights}});
}

class EvalCommand : public Command {
 public:
  CLI::App* Register(CLI::App& app) override {
    CLI::App* command = app.add_subcommand(
        "eval", "run a batch through a model, forward only, with its loss");
    AddFlags(*command, flags_);
    return command;
  }

  absl::Status Run(Session& session) override {
    PIPESTAGE_RETURN_IF_ERROR(PrepareFiles(flags_));
    PIPESTAGE_ASSIGN_OR_RETURN(const EvalInput input, MakeInput(flags_));
    PIPESTAGE_ASSIGN_OR_RETURN(auto client, session.Connect());
    const absl::Time begun = absl::Now();
    PIPESTAGE_ASSIGN_OR_RETURN(const EvalResult result,
                               Call(*client, input, session.console));
    EvalReport report{result, absl::ToDoubleSeconds(absl::Now() - begun)};
    report.timeline = flags_.timeline;
    // A full disk must not cost the answer.
    absl::Status written =
        WriteOutputs(flags_, result.outputs, report.output_files);
    written.Update(WriteRowLosses(flags_, result.summary));
    session.console.out << (flags_.format == "json" ? EvalReportJson(report)
                                                    : EvalReportText(report));
    return written;
  }

 private:
  absl::StatusOr<EvalResult> Call(PipelineClient& client,
                                  const EvalInput& input,
                                  Console& console) const {
    Progress progress(console.err, flags_.progress ? Progress::Mode::kLines
                                   : console.err_is_terminal
                                       ? Progress::Mode::kLive
                                       : Progress::Mode::kNone);
    return client.Eval(input, progress.callback());
  }

  EvalFlags flags_;
};

}  // namespace

std::unique_ptr<Command> MakeEvalCommand() {
  return std::make_unique<EvalCommand>();
}

}  // namespace pipestage
