// What is said of an optimizer store in tables and in JSON.
#pragma once

#include <string>

#include "cli/table.h"
#include "proto/control.pb.h"

namespace parkade::cli {

std::string StoreStateName(const v1::Store& store);  // "idle", "stepping", "torn", "failed"
std::string PlacementName(const v1::Store& store);   // "files", "host", "both"
std::string RedundancyName(const v1::Store& store);  // "inplace", "rotate", "shadow"
Table::Cell StoreStateCell(const v1::Store& store);  // the first of these
std::string StoreLabels(const v1::Store& store);     // as Labels of its process
std::string StepText(const v1::Store& store);        // "7", "7>8" on its way to 8, "-": not filled
std::string EncodingsText(const v1::Store& store);   // "main=fp32 exp_avg=bf16"

}  // namespace parkade::cli
