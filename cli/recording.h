// Recording: a timeline as the daemon sends or records it, in a form that can be asked about.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/timeline.pb.h"

namespace parkade::cli {

// One figure: its value from each time on, until the next. Times rise.
struct Curve {
  struct Point {
    int64_t ms;  // since 1970
    uint64_t bytes;
  };
  v1::TimelineSeries about;
  std::vector<Point> points;

  uint64_t At(int64_t ms) const;  // 0 before the first point
  // The largest from `begin` to `end`, both included.
  uint64_t Most(int64_t begin, int64_t end) const;
};

// What a user said was going on.
struct Phase {
  std::string name;
  std::string job;  // empty: of the whole node
  int64_t begin_ms;
  int64_t end_ms;
};

struct Recording {
  std::string name;  // of the file or node
  v1::TimelineStart start;
  std::vector<Curve> curves;
  std::vector<v1::Operation> operations;  // in the order of their begin
  std::vector<v1::TimelineMark> marks;
  int64_t begin_ms = 0, end_ms = 0;  // of points, operations and marks

  // The last phase of a job ends with the recording.
  std::vector<Phase> Phases() const;
  // Each GPU with a curve, in the order of their UUIDs.
  std::vector<std::string> Gpus() const;
};

// Builds a recording message by message.
class RecordingReader {
 public:
  // False for what cannot be in one: a format of another version, points of a series that is not
  // known.
  bool Add(const v1::TimelineEntry& entry);
  Recording Finish(std::string name);

 private:
  Recording all_;
  std::map<uint32_t, size_t> by_id_;  // in curves, since the last start
};

// NOT_FOUND or DATA_LOSS, with the path. A last message that was cut off in its writing is left
// out.
absl::StatusOr<Recording> ReadRecording(const std::string& path);

// Appends one message as ReadRecording reads it.
void WriteEntry(const v1::TimelineEntry& entry, std::ostream& out);

int64_t MsOf(const google::protobuf::Timestamp& time);

}  // namespace parkade::cli
