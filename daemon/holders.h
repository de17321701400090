// Holders: what is said of a GPU to a process that found no memory on it.
#pragma once

#include <string>

#include "daemon/gpus.h"
#include "daemon/registry.h"
#include "proto/wire.h"

namespace parkade::daemon {

// "; held by 4711 (train/actor) 80.0 GiB, 4712 45.1 GiB; moving: 4712 leaving", the largest
// first, as much as one message holds. Empty where the driver says nothing of the process's device.
// Processes of other users appear by pid alone. Asks the driver: some ms.
std::string HoldersOf(const Process& process, int device, const Registry& registry,
                      const Gpus& gpus);

// Answers a Want. Any thread but the listener's.
void AnswerWant(Process& process, const wire::Want& want, const Registry& registry,
                const Gpus& gpus);

}  // namespace parkade::daemon
