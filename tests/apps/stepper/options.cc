// Reads the command line of stepper.
#include "tests/apps/stepper/options.h"

#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr char kUsage[] =
    "usage: stepper [--door linked|dlopen|getproc|getproc1] [--device N] [--buffers N]\n"
    "               [--bytes SIZE,...] [--seed N] [--steps N] [--step-ms N] [--on-input]\n"
    "SIZE is a number of bytes, with K, M or G for powers of 1024.\n";

// Reads a number with an optional K, M or G at `*text`, and moves `*text` past it.
bool ReadNumber(const char** text, uint64_t* number) {
  char* end;
  if (**text < '0' || **text > '9') return false;
  *number = strtoull(*text, &end, 10);
  const char* unit = *end == '\0' ? nullptr : strchr("KMG", *end);
  if (unit != nullptr) {
    *number <<= 10 * (unit - "KMG" + 1);
    ++end;
  }
  *text = end;
  return true;
}

bool ReadOne(const char* text, uint64_t* number) {
  return ReadNumber(&text, number) && *text == '\0';
}

bool ReadSizes(const char* text, std::vector<uint64_t>* sizes) {
  sizes->clear();
  for (;; ++text) {
    uint64_t size;
    if (!ReadNumber(&text, &size) || size == 0) return false;
    sizes->push_back(size);
    if (*text == '\0') return true;
    if (*text != ',') return false;
  }
}

bool ReadDoor(const char* text, Door* door) {
  if (strcmp(text, "linked") == 0) return *door = Door::kLinked, true;
  if (strcmp(text, "dlopen") == 0) return *door = Door::kDlopen, true;
  if (strcmp(text, "getproc") == 0) return *door = Door::kGetProc, true;
  if (strcmp(text, "getproc1") == 0) return *door = Door::kGetProcV1, true;
  return false;
}

}  // namespace

bool ReadOptions(int argc, char** argv, Options* options) {
  static const option kLong[] = {{"door", required_argument, nullptr, 'd'},
                                 {"device", required_argument, nullptr, 'g'},
                                 {"buffers", required_argument, nullptr, 'n'},
                                 {"bytes", required_argument, nullptr, 'b'},
                                 {"seed", required_argument, nullptr, 's'},
                                 {"steps", required_argument, nullptr, 'c'},
                                 {"step-ms", required_argument, nullptr, 'm'},
                                 {"on-input", no_argument, nullptr, 'i'},
                                 {nullptr, 0, nullptr, 0}};
  bool good = true;
  uint64_t number = 0;
  int c;
  while (good && (c = getopt_long(argc, argv, "", kLong, nullptr)) != -1) {
    switch (c) {
      case 'd':
        good = ReadDoor(optarg, &options->door);
        break;
      case 'b':
        good = ReadSizes(optarg, &options->sizes);
        break;
      case 'i':
        options->on_input = true;
        break;
      case '?':
        good = false;
        break;
      default:
        good = ReadOne(optarg, &number);
        if (c == 'g') options->device = static_cast<int>(number);
        if (c == 'n') options->buffers = number;
        if (c == 's') options->seed = number;
        if (c == 'c') options->steps = number;
        if (c == 'm') options->step_ms = static_cast<unsigned>(number);
    }
  }
  if (good && optind == argc) return true;
  fputs(kUsage, stderr);
  return false;
}
