// Asks the driver for the attributes of an address, and how many bytes it writes for each.
#include "shim/heap/pointer_answers.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace parkade::shim {

PointerAnswers::PointerAnswers(const Driver& driver, CUdeviceptr at) {
  for (size_t i = 0; i < std::size(kAttributes); ++i) {
    Answer& answer = answers_[i];
    unsigned char again[sizeof answer.value];
    // Over two different fillings: the header does not say whether a boolean has one byte or four.
    memset(answer.value, 0x00, sizeof answer.value);
    memset(again, 0xff, sizeof again);
    answer.result = driver.pointer_get_attribute(answer.value, kAttributes[i], at);
    (void)driver.pointer_get_attribute(again, kAttributes[i], at);
    const auto* end = std::mismatch(std::begin(again), std::end(again), answer.value).first;
    answer.width = answer.result == CUDA_SUCCESS ? uint8_t(end - again) : 0;
  }
}

std::optional<PointerAnswers::Answer> PointerAnswers::Find(CUpointer_attribute attribute) const {
  const auto* found = std::find(std::begin(kAttributes), std::end(kAttributes), attribute);
  if (found == std::end(kAttributes)) return std::nullopt;
  return answers_[size_t(found - std::begin(kAttributes))];
}

}  // namespace parkade::shim
