// `parkade group` against a daemon in software, and verbs that name one.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

void AddGroups(v1::ListGroupsResponse& answer) {
  auto* rollout = answer.add_groups();
  rollout->set_name("rollout");
  rollout->set_configured(true);
  rollout->mutable_selector()->set_job("rl");
  rollout->mutable_selector()->set_role("rollout");
  rollout->set_policy(v1::POLICY_DISK);
  (*rollout->mutable_tag_policies())["kv_cache"] = v1::POLICY_DISCARD;
  auto* odd = answer.add_groups();
  odd->set_name("odd");
  odd->mutable_selector()->add_ranks(0);
  odd->mutable_selector()->add_ranks(3);
}

}  // namespace

TEST_CASE("group lists groups with where they come from") {
  FakeControl daemon;
  AddGroups(daemon.groups_answer);
  const Outcome o = RunCli({"group", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.out ==
        "GROUP    FROM  POLICY                 PROCESSES\n"
        "rollout  file  disk kv_cache=discard  job=rl role=rollout\n"
        "odd      call  -                      ranks=0,3\n");
  const auto json = nlohmann::json::parse(RunCli({"group", "-o", "json", daemon.flag()}).out);
  CHECK(json["groups"][0]["tag_policies"]["kv_cache"] == "discard");
  CHECK(json["groups"][0]["configured"] == true);
  CHECK(json["groups"][1]["policy"] == nullptr);
  CHECK(json["groups"][1]["selector"]["ranks"] == std::vector<int>{0, 3});
}

TEST_CASE("group defines and forgets") {
  FakeControl daemon;
  const Outcome defined = RunCli({"group", "actor", "--job", "rl", "--rank", "0,1", "--policy",
                                  "auto", "--tag-policy", "grad=discard", daemon.flag()});
  CHECK(defined.exit_code == 0);
  const v1::Group& group = daemon.define_request.group();
  CHECK(group.name() == "actor");
  CHECK(group.selector().job() == "rl");
  CHECK(group.selector().ranks_size() == 2);
  CHECK(group.policy() == v1::POLICY_AUTO);
  CHECK(group.tag_policies().at("grad") == v1::POLICY_DISCARD);
  CHECK(RunCli({"group", "actor", "--remove", daemon.flag()}).exit_code == 0);
  CHECK(daemon.remove_request.name() == "actor");
  daemon.error = ErrorWithReason(grpc::StatusCode::NOT_FOUND, "no such group", "NO_GROUP");
  CHECK(RunCli({"group", "actor", "--remove", daemon.flag()}).exit_code == kExitNotFound);
}

TEST_CASE("what makes no sense about a group is refused before the daemon is asked") {
  FakeControl daemon;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"group", "actor"},
           {"group", "--remove"},
           {"group", "--job", "rl"},
           {"group", "actor", "--remove", "--job", "rl"},
           {"group", "actor", "--job", "rl", "--tag-policy", "x"}}) {
    std::vector<std::string> all = words;
    all.push_back(daemon.flag());
    CHECK(RunCli(all).exit_code == kExitUsage);
  }
  CHECK(daemon.define_request.group().name().empty());
}

TEST_CASE("verbs take a group, tags and an empty match") {
  FakeControl daemon;
  const Outcome o = RunCli({"pause", "--group", "rollout", "--tags", "kv_cache, weights",
                            "--policy", "discard", "--allow-empty", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(daemon.pause_request.selector().group() == "rollout");
  CHECK(daemon.pause_request.tags(0) == "kv_cache, weights");
  CHECK(daemon.pause_request.policy() == v1::POLICY_DISCARD);
  CHECK(daemon.pause_request.allow_empty());
  CHECK(RunCli({"resume", "--group", "rollout", "--allow-empty", daemon.flag()}).exit_code == 0);
  CHECK(daemon.resume_request.selector().group() == "rollout");
  CHECK(daemon.resume_request.allow_empty());
}

}  // namespace parkade::cli
