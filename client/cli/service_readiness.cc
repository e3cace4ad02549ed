#include "client/cli/service_readiness.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/pipeline_client.h"

namespace pipestage {
namespace {

bool Serves(const v1::Status& status, const std::string& model) {
  const bool any_version = !absl::StrContains(model, '@');
  return std::any_of(
      status.serving().begin(), status.serving().end(),
      [&](const std::string& serving) {
        return any_version ? absl::StartsWith(serving, absl::StrCat(model, "@"))
                           : serving == model;
      });
}

}  // namespace

std::string WhatServiceWaitsFor(const v1::Status& status,
                                const std::vector<std::string>& models) {
  switch (status.state()) {
    case v1::READY:
      break;
    case v1::FORMING:
      return absl::StrCat("all ", status.workers_expected(),
                          " workers are here and connect to each other");
    case v1::DRAINING:
      return "the coordinator drains";
    default:
      return absl::StrCat("waiting for workers: ", status.workers_size(),
                          " of ", status.workers_expected(), " are here");
  }
  std::vector<std::string> missing;
  for (const std::string& model : models) {
    if (!Serves(status, model)) missing.push_back(model);
  }
  if (missing.empty()) return "";
  return absl::StrCat("loading ", absl::StrJoin(missing, ", "));
}

std::string LookAtService(const std::string& address,
                          const std::vector<std::string>& models) {
  PipelineClient::Options options;
  options.address = address;
  options.timeout = absl::Seconds(1);
  auto client = PipelineClient::Create(options);
  if (!client.ok()) return std::string(client.status().message());
  absl::StatusOr<v1::Status> status = (*client)->GetStatus();
  if (!status.ok()) return "waiting for the coordinator to answer";
  return WhatServiceWaitsFor(*status, models);
}

}  // namespace pipestage
