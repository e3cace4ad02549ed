#ifndef PIPESTAGE_COORDINATOR_TESTING_TEST_VIEW_H_
#define PIPESTAGE_COORDINATOR_TESTING_TEST_VIEW_H_

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/pipeline.h"
#include "coordinator/testing/recording_connection.h"

namespace pipestage {

// Views of a pipeline as a test wants them, with connections that record.
class TestView {
 public:
  explicit TestView(int num_ranks) : members_(num_ranks) {}

  // A new attachment at `rank`.
  const Attachment& Attach(int rank) {
    auto attachment = std::make_shared<Attachment>();
    attachment->id = ++last_id_;
    attachment->rank = Rank(rank);
    attachment->name = absl::StrCat("w", rank);
    connections_.push_back(std::make_shared<RecordingConnection>());
    attachment->connection = connections_.back();
    members_[rank] = attachment;
    return *members_[rank];
  }
  void Detach(int rank) { members_[rank] = nullptr; }

  const Attachment& at(int rank) const { return *members_[rank]; }
  RecordingConnection& connection(int rank) const {
    return static_cast<RecordingConnection&>(*members_[rank]->connection);
  }

  // The next view of it.
  std::shared_ptr<const PipelineView> Make(
      Membership::State state = Membership::State::kReady,
      int64_t generation = 1) {
    auto view = std::make_shared<PipelineView>();
    view->version = ++last_version_;
    view->state = state;
    view->generation = Generation(generation);
    view->members.assign(members_.begin(), members_.end());
    return view;
  }

 private:
  std::vector<std::shared_ptr<const Attachment>> members_;
  std::vector<std::shared_ptr<RecordingConnection>> connections_;
  AttachmentId last_id_;
  int64_t last_version_ = 0;
};

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_TESTING_TEST_VIEW_H_
