// DoubleOffload: signs that a process moves memory out of the GPU by itself, which with Parkade
// moves the same bytes twice. Says so and changes nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/ledger.h"

namespace parkade::daemon {

// A sentence for each sign: host memory that the program has pinned, 1 GiB or more and at least a
// quarter of what Parkade moves for it; libraries of other offloaders, by the file names in `maps`,
// the text of /proc/<pid>/maps, which may be empty.
std::vector<std::string> DoubleOffload(const wire::LedgerHeader& ledger, std::string_view maps);

}  // namespace parkade::daemon
