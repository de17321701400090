// What may stand in one scratch directory (proto/scratch.h): looked into and removed by descriptor,
// without following a link. Does not judge whose owner lives; scratch_sweep does.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/fd.h"
#include "proto/scratch.h"

namespace parkade::daemon {

// What became of `what` at `path`, which the metadata names: "open /a: No such file".
absl::Status FileFailed(int os_errno, std::string_view what, const std::string& path);

// "p<pid>-<24 hex digits>".
bool IsScratchName(std::string_view name);

// The record in the bytes of an owner file. Empty when it is none: too short, or one of its fields
// cannot be.
std::optional<wire::OwnerRecord> ReadOwner(std::span<const char> bytes);

// Opens `name` in `at`, a directory and no link; errno says why not.
Fd OpenDirectory(int at, const char* name);
// The names in a directory, without "." and "..".
std::vector<std::string> NamesIn(int dir);

// What one look at a directory saw.
struct ScratchContents {
  Fd dir;
  uid_t uid = 0;  // the directory's
  gid_t gid = 0;
  Bytes bytes = 0;  // allocated on disk
  std::optional<wire::OwnerRecord> owner;
  bool owner_complete = false;  // the file is as long as a record; whether it is one says `owner`
  bool has_data = false;
  std::string stranger;  // an entry that is none of ours; empty: there is none
};
// NOT_FOUND when there is no such directory, PERMISSION_DENIED (BAD_SCRATCH) for a link, a file, or
// one that may not be opened.
absl::StatusOr<ScratchContents> LookInto(int root, const std::string& name);

// Deletes the files of the directory `name`, which must still be the one open as `dir`, then it.
// The data goes in any case. Where something stands that is not ours, owner record and lock stay
// with it, and it is named: FAILED_PRECONDITION (NOT_EMPTY). Success also when it is gone already.
// `path` is for messages.
absl::Status RemoveScratch(int root, int dir, const std::string& name, const std::string& path);

}  // namespace parkade::daemon
