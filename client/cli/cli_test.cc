// Whole command lines, against a coordinator without workers.

#include "client/cli/cli.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "client/cli/message_json.h"
#include "client/tensor_file.h"
#include "client/testing/fake_coordinator.h"
#include "gtest/gtest.h"

namespace pipestage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    x_ = {DType::kFloat32, {5, 2}, Buffer::CopyOf(values.data(), 40)};
    EXPECT_THAT(WriteNpyFile(PathOf("x.npy"), x_), IsOk());
  }

  static std::string PathOf(const std::string& name) {
    return absl::StrCat(::testing::TempDir(), "/", name);
  }

  // Runs a command line against the coordinator.
  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--address", coordinator_.address()});
    return RunAsGiven(arguments);
  }

  int RunAsGiven(const std::vector<std::string>& arguments) {
    std::ostringstream out;
    std::ostringstream err;
    Console console{out, err};
    console.address_from_environment = environment_;
    console.install_stop_signals = [] { return -1; };
    const int code = RunCli(arguments, console);
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  std::vector<std::string> Eval(const std::string& model,
                                std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"eval", "--model", model, "--input",
                                          absl::StrCat("x=", PathOf("x.npy"))};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  FakeCoordinator coordinator_;
  HostTensor x_;
  std::string environment_;
  std::string out_;
  std::string err_;
};

TEST_F(CliTest, EvalPrintsTheLossAndNothingElseOnStandardError) {
  EXPECT_EQ(Run(Eval("echo@1", {"--microbatches", "2", "--no-outputs"})), 0);

  EXPECT_THAT(out_, HasSubstr("loss        0.5 = sum 2.5 / weight 5"));
  EXPECT_EQ(err_, "");
  EXPECT_EQ(coordinator_.unary_calls(), 1);
}

TEST_F(CliTest, EvalPrintsJson) {
  EXPECT_EQ(Run(Eval("echo", {"--microbatches", "2", "--schedule", "gpipe",
                              "--no-outputs", "--output", "json"})),
            0);

  const Json json = Json::parse(out_);
  EXPECT_EQ(json["loss_sum"], 2.5);
  EXPECT_EQ(json["weight"], 5);
  EXPECT_EQ(json["microbatches"][0]["rows"], 3);
  EXPECT_EQ(json["microbatches"][1]["rows"], 2);
  EXPECT_EQ(json["ran"]["schedule"], "gpipe");
}

TEST_F(CliTest, AResultThatCannotBeWrittenIsAFailure) {
  std::ofstream full("/dev/full");
  std::ostringstream err;
  Console console{full, err};
  std::vector<std::string> arguments = Eval("echo@1", {"--no-outputs"});
  arguments.insert(arguments.begin(), {"--address", coordinator_.address()});

  EXPECT_EQ(RunCli(arguments, console), 1);

  EXPECT_THAT(err.str(), HasSubstr("could not be written"));
}

TEST_F(CliTest, TimesThatAreNoneAreRefused) {
  for (const char* seconds : {"nan", "inf", "-1", "0", "soon", "1e300"}) {
    EXPECT_EQ(Run({"--timeout", seconds, "status"}), 2) << seconds;
  }
}

TEST_F(CliTest, ANanIsReportedAndTheJsonStaysJson) {
  EXPECT_EQ(Run(Eval("nan", {"--microbatches", "2", "--output", "json"})), 0);
  EXPECT_EQ(Json::parse(out_)["nonfinite"], 1);

  EXPECT_EQ(Run(Eval("nan", {"--microbatches", "2"})), 0);
  EXPECT_THAT(out_, HasSubstr("in microbatch 1 (rows 3..4)"));
}

TEST_F(CliTest, NoValidTargetsIsAnAnswer) {
  EXPECT_EQ(Run(Eval("nolabel")), 0);

  EXPECT_THAT(out_, HasSubstr("no valid targets"));
}

TEST_F(CliTest, OutputsAreWrittenToAFolder) {
  const std::string folder = PathOf("new/folder");
  std::filesystem::remove_all(folder);

  EXPECT_EQ(Run(Eval("echo", {"--outputs-dir", folder})), 0) << err_;

  PIPESTAGE_ASSERT_OK_AND_ASSIGN(HostTensor y,
                                 ReadTensorFile(folder + "/y.npy", "y"));
  EXPECT_EQ(y.shape, x_.shape);
  EXPECT_THAT(out_, HasSubstr("y float32 [5,2] in "));
}

TEST_F(CliTest, OutputsAndRowLossesAreWrittenToFiles) {
  EXPECT_EQ(Run(Eval("echo", {"--output-file", PathOf("out.safetensors"),
                              "--row-losses", PathOf("rows.safetensors")})),
            0)
      << err_;

  EXPECT_THAT(ReadTensorFile(PathOf("out.safetensors"), "y"), IsOk());
  PIPESTAGE_ASSERT_OK_AND_ASSIGN(
      HostTensor losses,
      ReadTensorFile(PathOf("rows.safetensors:row_losses"), ""));
  EXPECT_EQ(losses.dtype, DType::kFloat64);
  EXPECT_EQ(losses.shape, Shape({5}));
  EXPECT_THAT(ReadTensorFile(PathOf("rows.safetensors:row_weights"), ""),
              IsOk());
}

TEST_F(CliTest, ProgressIsLinesWithoutControlCharacters) {
  EXPECT_EQ(Run(Eval("echo", {"--microbatches", "5", "--progress"})), 0);

  EXPECT_THAT(err_, HasSubstr("microbatch 4, rows 4..4"));
  EXPECT_THAT(out_ + err_, Not(HasSubstr("\r")));
  EXPECT_THAT(out_ + err_, Not(HasSubstr("\x1b")));
}

TEST_F(CliTest, TheTimelineIsDrawn) {
  EXPECT_EQ(Run(Eval("echo", {"--microbatches", "5", "--timeline"})), 0);

  EXPECT_THAT(out_, HasSubstr("rank 0   stage 0   0000"));
}

TEST_F(CliTest, AnErrorOfTheServerIsExitCodeOneWithWhatToDoNext) {
  EXPECT_EQ(Run(Eval("nobody")), 1);

  EXPECT_EQ(out_, "");
  EXPECT_THAT(err_, HasSubstr("NOT_FOUND: no model \"nobody\""));
  EXPECT_THAT(err_, HasSubstr("next: `pipestage models`"));
}

TEST_F(CliTest, ACallThatTakesTooLongEnds) {
  EXPECT_EQ(Run(Eval("stall", {"--timeout", "0.05"})), 1);

  EXPECT_THAT(err_, HasSubstr("DEADLINE_EXCEEDED"));
}

TEST_F(CliTest, AMissingFileIsToldBeforeAnythingIsSent) {
  EXPECT_EQ(Run({"eval", "--model", "echo", "--input", "x=/no/such.npy"}), 1);

  EXPECT_THAT(err_, HasSubstr("/no/such.npy"));
  EXPECT_EQ(coordinator_.unary_calls() + coordinator_.streamed_calls(), 0);
}

TEST_F(CliTest, InputsGivenTwiceAreRefused) {
  EXPECT_EQ(Run(Eval("echo", {"--input", "x=" + PathOf("x.npy")})), 1);

  EXPECT_THAT(err_, HasSubstr("input \"x\" is given twice"));
}

TEST_F(CliTest, ArgumentsThatMakeNoSenseAreExitCodeTwo) {
  const std::vector<std::vector<std::string>> command_lines = {
      {},
      {"nonsense"},
      {"eval"},
      {"eval", "--model", "m"},
      {"eval", "--model", "m@", "--input", "x=f.npy"},
      {"eval", "--model", "m", "--input", "x"},
      Eval("m", {"--microbatches", "0"}),
      Eval("m", {"--microbatches", "two"}),
      Eval("m", {"--microbatches", "2", "--microbatch-rows", "2"}),
      Eval("m", {"--no-outputs", "--outputs-dir", "d"}),
      Eval("m", {"--output", "xml"}),
      Eval("m", {"--no-such-flag"}),
      Eval("m", {"stray"}),
      {"models", "show"},
      {"up"},
      {"up", "--workers", "0"},
      {"plan", "--workers", "2"},
  };
  for (const auto& command_line : command_lines) {
    EXPECT_EQ(RunAsGiven(command_line), 2)
        << ::testing::PrintToString(command_line);
    EXPECT_NE(err_, "");
  }
}

TEST_F(CliTest, HelpIsNoError) {
  EXPECT_EQ(RunAsGiven({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("eval"));

  EXPECT_EQ(RunAsGiven({"eval", "--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("--microbatch-rows"));
}

TEST_F(CliTest, TheAddressMayComeAfterTheCommandOrFromTheEnvironment) {
  EXPECT_EQ(RunAsGiven({"status", "--address", coordinator_.address()}), 0);

  environment_ = coordinator_.address();
  EXPECT_EQ(RunAsGiven({"status"}), 0);

  environment_ = "127.0.0.1:1";
  EXPECT_EQ(RunAsGiven({"status"}), 1);
  EXPECT_THAT(err_, HasSubstr("listen at 127.0.0.1:1?"));
}

TEST_F(CliTest, ModelsAreListedShownLoadedAndUnloaded) {
  EXPECT_EQ(Run({"models"}), 0);
  EXPECT_THAT(out_, HasSubstr("echo@2"));
  EXPECT_EQ(Run({"models", "list", "--output", "json"}), 0);
  EXPECT_EQ(Json::parse(out_).size(), 2u);
  EXPECT_EQ(Run({"models", "show", "echo@1"}), 0);
  EXPECT_THAT(out_,
              HasSubstr("input     x float32 [rows, 3], split on axis 0"));
  EXPECT_EQ(Run({"models", "load", "echo"}), 0);
  EXPECT_THAT(out_, HasSubstr("serving"));
  EXPECT_EQ(coordinator_.loaded_models(), 1);
  EXPECT_EQ(Run({"models", "unload", "echo@2"}), 0);
  EXPECT_EQ(coordinator_.loaded_models(), 0);
  EXPECT_EQ(Run({"models", "unload", "echo@2"}), 1);
}

TEST_F(CliTest, StatusIsTextOrJson) {
  EXPECT_EQ(Run({"status"}), 0);
  EXPECT_THAT(out_, HasSubstr("READY"));

  EXPECT_EQ(Run({"status", "--output", "json"}), 0);
  EXPECT_EQ(Json::parse(out_)["serving"][0], "echo@1");
  EXPECT_EQ(Json::parse(out_)["plan_cache"]["hits"], 3);
}

TEST_F(CliTest, PlansAreDrawnWithoutAsking) {
  EXPECT_EQ(RunAsGiven({"plan", "--workers", "2", "--microbatches", "2"}), 0);
  EXPECT_THAT(out_, HasSubstr("rank 1     . 1F0 1F1\n"));

  EXPECT_EQ(
      RunAsGiven({"plan", "--schedule", "gpipe", "--workers", "1",
                  "--stages-per-worker", "2", "--microbatches", "1", "--csv"}),
      0);
  EXPECT_EQ(out_, "0F0,1F0\n");

  EXPECT_EQ(RunAsGiven({"plan", "--schedule", "none", "--workers", "1",
                        "--microbatches", "1"}),
            1);
}

TEST_F(CliTest, UpNeedsAFolderOfModels) {
  EXPECT_EQ(RunAsGiven({"up", "--workers", "1", "--model-repository",
                        "/no/such/folder"}),
            1);

  EXPECT_THAT(err_, HasSubstr("no folder /no/such/folder"));
}

}  // namespace
}  // namespace pipestage
