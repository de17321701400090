// `parkade store`: the optimizer stores of processes, in a list or one by one.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/selector.h"
#include "cli/store_text.h"
#include "cli/table.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

using Align = Table::Align;
using Stores = google::protobuf::RepeatedPtrField<v1::Store>;

struct StoreOptions {
  std::string name;
  SelectorOptions selector;
};

void PrintList(const Stores& stores, const Context& context) {
  Table table;
  table.AddColumn("PID", Align::kRight);
  for (const char* name : {"LABELS", "STORE", "STATE"}) table.AddColumn(name);
  for (const char* name : {"STEP", "ELEMENTS", "FILES", "HOST", "LAST", "READ", "WRITTEN"}) {
    table.AddColumn(name, Align::kRight);
  }
  table.AddColumn("ENCODINGS");
  for (const v1::Store& store : stores) {
    table.AddRow({absl::StrCat(store.pid()), Printable(StoreLabels(store)), Printable(store.name()),
                  StoreStateCell(store), StepText(store), absl::StrCat(store.elements()),
                  FormatBytes(store.file_bytes()), FormatBytes(store.host_bytes()),
                  FormatSeconds(store.last_seconds()), FormatBytes(store.read_bytes()),
                  FormatBytes(store.written_bytes()), Printable(EncodingsText(store))});
  }
  table.Print(context.terminal.out, context.wide() ? 0 : context.terminal.out_columns,
              context.terminal.colour);
}

int List(const StoreOptions& options, const Context& context) {
  Client client(context.globals);
  const auto selector = MakeSelector(options.selector, client);
  if (!selector.ok()) return context.Fail("store ls", selector.status());
  v1::ListStoresRequest request;
  *request.mutable_selector() = *selector;
  const auto response = client.ListStores(request);
  if (!response.ok()) return context.Fail("store ls", response.status());
  if (context.json()) {
    context.terminal.out << StoresJson(response->stores()) << '\n';
  } else {
    PrintList(response->stores(), context);
  }
  return kExitOk;
}

void PrintOne(const v1::Store& store, std::ostream& out) {
  const auto line = [&out](const char* name, const std::string& value) {
    out << name << std::string(12 - std::string_view(name).size(), ' ') << value << '\n';
  };
  line("store", Printable(store.name()));
  line("process", absl::StrCat(store.pid(), "  ", Printable(StoreLabels(store))));
  line("state", StoreStateName(store));
  if (!store.reason().empty()) {
    line("because", Printable(absl::StrCat(store.reason(), ": ", store.message())));
  }
  line("step", StepText(store));
  line("elements", absl::StrCat(store.elements(), " in ", store.buckets(), " buckets of ",
                                store.bucket_elements(), " at most"));
  line("encodings", Printable(EncodingsText(store)));
  line("in files", absl::StrCat(FormatBytes(store.file_bytes()), ", ", RedundancyName(store)));
  for (const std::string& directory : store.directories()) line("", Printable(directory));
  line("in host", FormatBytes(store.host_bytes()));
  line("in HBM", absl::StrCat(FormatBytes(store.device_bytes()), ", ", store.slots(), " slots"));
  line("last step", absl::StrCat(FormatSeconds(store.last_seconds()), ", read ",
                                 FormatBytes(store.last_read_bytes()), " at ",
                                 FormatRate(store.last_read_bytes(), store.last_seconds()),
                                 ", written ", FormatBytes(store.last_written_bytes()), " at ",
                                 FormatRate(store.last_written_bytes(), store.last_seconds())));
  line("in all", absl::StrCat("read ", FormatBytes(store.read_bytes()), ", written ",
                              FormatBytes(store.written_bytes())));
}

int Show(const StoreOptions& options, const Context& context) {
  const std::string what = absl::StrCat("store show ", options.name);
  Client client(context.globals);
  const auto selector = MakeSelector(options.selector, client);
  if (!selector.ok()) return context.Fail(what, selector.status());
  v1::GetStoreRequest request;
  request.set_name(options.name);
  *request.mutable_selector() = *selector;
  const auto response = client.GetStore(request);
  if (!response.ok()) return context.Fail(what, response.status());
  std::ostream& out = context.terminal.out;
  if (context.json()) {
    out << StoresJson(response->stores()) << '\n';
    return kExitOk;
  }
  for (int i = 0; i < response->stores_size(); ++i) {
    if (i != 0) out << '\n';
    PrintOne(response->stores(i), out);
  }
  return kExitOk;
}

}  // namespace

void AddStore(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("store", "Shows optimizer stores");
  verb->require_subcommand(1);
  CLI::App* list = verb->add_subcommand("ls", "Lists the stores that processes have open");
  auto listed = std::make_shared<StoreOptions>();
  AddSelector(*list, listed->selector);
  list->callback(
      [&context, listed] { context.verb = [&context, listed] { return List(*listed, context); }; });
  CLI::App* show = verb->add_subcommand("show", "Describes the stores of one name");
  auto shown = std::make_shared<StoreOptions>();
  show->add_option("NAME", shown->name, "Of the store")->required();
  AddSelector(*show, shown->selector);
  show->callback(
      [&context, shown] { context.verb = [&context, shown] { return Show(*shown, context); }; });
}

}  // namespace parkade::cli
