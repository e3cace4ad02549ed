#include "client/cli/models_command.h"

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/arguments.h"
#include "client/cli/message_json.h"

namespace pipestage {
namespace {

std::string NameOf(const v1::Model& model) {
  return absl::StrCat(model.name(), "@", model.version());
}

std::string StateOf(const v1::Model& model) {
  return absl::AsciiStrToLower(v1::ModelState_Name(model.state()));
}

std::string ListText(const std::vector<v1::Model>& models) {
  if (models.empty()) return "the repository holds no models\n";
  std::string text =
      absl::StrFormat("%-32s %-12s %s\n", "model", "state", "description");
  for (const v1::Model& model : models) {
    absl::StrAppendFormat(
        &text, "%-32s %-12s %s\n", NameOf(model), StateOf(model),
        model.problem().empty() ? model.description() : model.problem());
  }
  return text;
}

std::string ContractText(const v1::TensorContract& tensor) {
  std::string dtype = v1::DType_Name(tensor.dtype());
  absl::AsciiStrToLower(&dtype);
  return absl::StrCat(
      tensor.name(), " ", dtype, " [", absl::StrJoin(tensor.shape(), ", "), "]",
      tensor.axis() < 0 ? "" : absl::StrCat(", split on axis ", tensor.axis()));
}

void AppendContracts(
    absl::string_view label,
    const google::protobuf::RepeatedPtrField<v1::TensorContract>& tensors,
    std::string* text) {
  for (const v1::TensorContract& tensor : tensors) {
    absl::StrAppendFormat(text, "%-10s%s\n", label, ContractText(tensor));
  }
}

std::string ModelText(const v1::Model& model) {
  std::string text =
      absl::StrCat(NameOf(model), ": ", StateOf(model),
                   model.problem().empty() ? "" : ": ", model.problem(), "\n");
  if (!model.description().empty()) {
    absl::StrAppend(&text, model.description(), "\n");
  }
  AppendContracts("input", model.inputs(), &text);
  AppendContracts("target", model.targets(), &text);
  AppendContracts("output", model.outputs(), &text);
  absl::StrAppendFormat(&text, "%-10s%s\n", "loss",
                        model.loss().empty() ? "none" : model.loss());
  absl::StrAppendFormat(&text, "%-10s%d microbatches, %s\n", "defaults",
                        model.default_num_microbatches(),
                        model.default_schedule());
  for (const v1::StageInfo& stage : model.stages()) {
    absl::StrAppendFormat(
        &text, "%-10s%s%s\n", absl::StrCat("stage ", stage.index()),
        stage.program(),
        stage.rank() < 0 ? ", not loaded"
                         : absl::StrCat(" on rank ", stage.rank(), " (",
                                        stage.worker(), ")"));
  }
  absl::StrAppendFormat(&text, "%-10s%s\n", "digest", model.digest());
  return text;
}

class ModelsCommand : public Command {
 public:
  CLI::App* Register(CLI::App& app) override {
    command_ = app.add_subcommand("models", "list, show, load, unload models");
    command_->require_subcommand(0, 1);
    command_->add_option("--output", format_, "text or json")
        ->check(CLI::IsMember({"text", "json"}));
    Add("list", "all versions in the repository");
    show_ = AddOfModel("show", "one version: contract, stages, state");
    load_ = AddOfModel("load", "serve a version (unnamed: the newest)");
    load_
        ->add_option("--workers", num_workers_,
                     "spread it over so many workers")
        ->check(CLI::PositiveNumber);
    unload_ = AddOfModel("unload", "NAME@VERSION: stop serving it");
    return command_;
  }

  absl::Status Run(Session& session) override {
    PIPESTAGE_ASSIGN_OR_RETURN(auto client, session.Connect());
    if (show_->parsed() || load_->parsed()) {
      PIPESTAGE_ASSIGN_OR_RETURN(const v1::ModelRef ref, ParseModelRef(model_));
      PIPESTAGE_ASSIGN_OR_RETURN(const v1::Model model,
                                 show_->parsed()
                                     ? client->GetModel(ref)
                                     : client->LoadModel(ref, num_workers_));
      session.console.out << (IsJson() ? MessageToJson(model).dump() + "\n"
                                       : ModelText(model));
      return absl::OkStatus();
    }
    if (unload_->parsed()) return Unload(*client, session);
    return List(*client, session);
  }

 private:
  bool IsJson() const { return format_ == "json"; }

  CLI::App* Add(const std::string& name, const std::string& description) {
    CLI::App* command = command_->add_subcommand(name, description);
    command->fallthrough();
    return command;
  }

  CLI::App* AddOfModel(const std::string& name,
                       const std::string& description) {
    CLI::App* command = Add(name, description);
    command->add_option("model", model_, "NAME, or NAME@VERSION")
        ->required()
        ->check(CheckModelRef);
    return command;
  }

  absl::Status List(PipelineClient& client, Session& session) const {
    PIPESTAGE_ASSIGN_OR_RETURN(const std::vector<v1::Model> models,
                               client.ListModels());
    if (!IsJson()) {
      session.console.out << ListText(models);
      return absl::OkStatus();
    }
    Json json = Json::array();
    for (const v1::Model& model : models) json.push_back(MessageToJson(model));
    session.console.out << json.dump() << "\n";
    return absl::OkStatus();
  }

  absl::Status Unload(PipelineClient& client, Session& session) const {
    PIPESTAGE_ASSIGN_OR_RETURN(const v1::ModelRef ref, ParseModelRef(model_));
    PIPESTAGE_RETURN_IF_ERROR(client.UnloadModel(ref));
    if (IsJson()) {
      session.console.out << "{}\n";
    } else {
      session.console.out << FormatModelRef(ref) << " is no longer served\n";
    }
    return absl::OkStatus();
  }

  CLI::App* command_ = nullptr;
  CLI::App* show_ = nullptr;
  CLI::App* load_ = nullptr;
  CLI::App* unload_ = nullptr;
  std::string model_;
  int num_workers_ = 0;
  std::string format_ = "text";
};

}  // namespace

std::unique_ptr<Command> MakeModelsCommand() {
  return std::make_unique<ModelsCommand>();
}

}  // namespace pipestage
