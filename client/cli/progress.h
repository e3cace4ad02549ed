#ifndef PIPESTAGE_CLIENT_CLI_PROGRESS_H_
#define PIPESTAGE_CLIENT_CLI_PROGRESS_H_

#include <ostream>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/eval_call.h"

namespace pipestage {

// Shows how far an Eval has come, from its construction to its destruction.
//
// Made and destroyed by one thread; OnMicrobatch may be called by any.
class Progress {
 public:
  enum class Mode {
    kNone,
    kLines,  // a line for each microbatch, also into a pipe
    kLive,  // one line that is written over, if it takes longer than `patience`
  };

  // `err` is written to until the destructor has returned.
  Progress(std::ostream& err, Mode mode,
           absl::Duration patience = absl::Seconds(2));
  ~Progress();

  // Null in mode kNone: then nothing needs to be reported.
  MicrobatchCallback callback();

 private:
  void OnMicrobatch(const v1::MicrobatchLoss& microbatch);
  void ShowLive();

  std::ostream& err_;
  const Mode mode_;
  const absl::Duration patience_;
  const absl::Time begun_;
  absl::Mutex mu_;
  int finished_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t finished_rows_ ABSL_GUARDED_BY(mu_) = 0;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  std::thread live_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_PROGRESS_H_
