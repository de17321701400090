// Asks the driver for the attributes of an address, and how many bytes it writes for each.
#include "shim/heap/pointer_answers.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace parkade::shim {

PointerAnswers::PointerAnswers(const Driver& driver, CUdeviceptr at) {
  for (size_t i = 0; i < std::size(kQuestions); ++i) {
    const auto& [attribute, width] = kQuestions[i];
    Answer& answer = answers_[i];
    memset(answer.value, 0x00, sizeof answer.value);
    answer.result = driver.pointer_get_attribute(answer.value, attribute, at);
    answer.width = width;
    if (width != 0 || answer.result != CUDA_SUCCESS) continue;
    // What it leaves of two different fillings it does not write.
    unsigned char again[sizeof answer.value];
    memset(again, 0xff, sizeof again);
    (void)driver.pointer_get_attribute(again, attribute, at);
    const auto* end = std::mismatch(std::begin(again), std::end(again), answer.value).first;
    answer.width = uint8_t(end - again);
  }
}

std::optional<PointerAnswers::Answer> PointerAnswers::Find(CUpointer_attribute attribute) const {
  for (size_t i = 0; i < std::size(kQuestions); ++i) {
    if (kQuestions[i].attribute == attribute) return answers_[i];
  }
  return std::nullopt;
}

}  // namespace parkade::shim
