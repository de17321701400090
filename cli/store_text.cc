// Words and cells for stores.
#include "cli/store_text.h"

#include "absl/strings/str_cat.h"
#include "cli/format.h"

namespace parkade::cli {

std::string StoreStateName(const v1::Store& store) {
  switch (store.state()) {
    case v1::Store::STATE_IDLE:
      return "idle";
    case v1::Store::STATE_STEPPING:
      return "stepping";
    case v1::Store::STATE_TORN:
      return "torn";
    case v1::Store::STATE_FAILED:
      return "failed";
    default:
      return absl::StrCat("state ", int(store.state()));
  }
}

std::string PlacementName(const v1::Store& store) {
  switch (store.placement()) {
    case v1::Store::PLACEMENT_FILES:
      return "files";
    case v1::Store::PLACEMENT_HOST:
      return "host";
    case v1::Store::PLACEMENT_BOTH:
      return "both";
    default:
      return absl::StrCat("placement ", int(store.placement()));
  }
}

std::string RedundancyName(const v1::Store& store) {
  switch (store.redundancy()) {
    case v1::Store::REDUNDANCY_INPLACE:
      return "inplace";
    case v1::Store::REDUNDANCY_ROTATE:
      return "rotate";
    case v1::Store::REDUNDANCY_SHADOW:
      return "shadow";
    default:
      return absl::StrCat("redundancy ", int(store.redundancy()));
  }
}

Table::Cell StoreStateCell(const v1::Store& store) {
  const bool bad =
      store.state() == v1::Store::STATE_TORN || store.state() == v1::Store::STATE_FAILED;
  const bool idle = store.state() == v1::Store::STATE_IDLE;
  return {StoreStateName(store), bad ? Colour::kRed : idle ? Colour::kGreen : Colour::kYellow};
}

std::string StoreLabels(const v1::Store& store) {
  return absl::StrCat(OrDash(store.job()), "/", OrDash(store.role()), "/",
                      store.has_rank() ? absl::StrCat(store.rank()) : "-");
}

std::string StepText(const v1::Store& store) {
  const std::string at = store.has_step() ? absl::StrCat(store.step()) : "-";
  return store.has_open_step() ? absl::StrCat(at, ">", store.open_step()) : at;
}

std::string EncodingsText(const v1::Store& store) {
  std::string text;
  for (const v1::StoreSegment& segment : store.segments()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", segment.name(), "=", segment.encoding());
  }
  return text;
}

}  // namespace parkade::cli
