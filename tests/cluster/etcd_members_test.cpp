// What etcd's events say of a job: lists of events, without etcd.
#include "cluster/net/etcd_members.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cluster/net/rendezvous.pb.h"
#include "cluster/net/verdict.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using etcdserverpb::Event;
using etcdserverpb::RangeResponse;
using etcdserverpb::WatchResponse;

const EtcdKeys kKeys("job");
const std::string kRun = "1-2";

std::string text_of(const Status& status) {
  return status.ok() ? "" : status.error().what();
}

EtcdMembers three() {
  return {3, kKeys.signs(kRun), 100, 1500ms};
}

struct Events {
  Events& put(const std::string& key, const std::string& value = "") {
    return add(Event::PUT, key, value);
  }
  Events& gone(const std::string& key) { return add(Event::DELETE, key, ""); }
  Events& add(Event::EventType type, const std::string& key, const std::string& value) {
    Event& event = *response.add_events();
    event.set_type(type);
    event.mutable_kv()->set_key(key);
    event.mutable_kv()->set_value(value);
    event.mutable_kv()->set_mod_revision(++revision);
    return *this;
  }
  WatchResponse response{};
  std::int64_t revision = 100;
};

std::string failure_of(int rank, const std::string& text) {
  wire::BeatRequest last;
  last.set_rank(rank);
  *last.mutable_failed() = verdict_of(Status(ErrorCode::data_loss, text));
  return last.SerializeAsString();
}

TEST(EtcdMembers, LostKey) {
  EtcdMembers members = three();
  EXPECT_EQ(members.next_revision(), 101);
  members.apply(Events().gone(kKeys.rank(kRun, 1)).response);
  EXPECT_EQ(text_of(members.status()), "rank 1 was lost: no sign of life for 1500 ms");
  EXPECT_EQ(members.status().error().code(), ErrorCode::unavailable);
  EXPECT_EQ(members.next_revision(), 102);
  members.apply(Events().gone(kKeys.rank(kRun, 2)).response);
  EXPECT_EQ(text_of(members.status()), "rank 1 was lost: no sign of life for 1500 ms")
      << "what has ended stays ended";
}

TEST(EtcdMembers, SimultaneousLosses) {
  EtcdMembers members = three();
  members.apply(Events().gone(kKeys.rank(kRun, 2)).gone(kKeys.rank(kRun, 0)).response);
  EXPECT_EQ(text_of(members.status()), "ranks 2, 0 were lost: no sign of life for 1500 ms");
}

TEST(EtcdMembers, DepartedMember) {
  EtcdMembers members = three();
  members.apply(Events().put(kKeys.left(kRun, 1)).gone(kKeys.rank(kRun, 1)).response);
  members.apply(Events().put(kKeys.left(kRun, 2)).response);
  members.apply(Events().gone(kKeys.rank(kRun, 2)).gone(kKeys.left(kRun, 2)).response);
  EXPECT_EQ(text_of(members.status()), "");
  EXPECT_EQ(members.refused(), 0U);
}

TEST(EtcdMembers, FirstFailure) {
  EtcdMembers members = three();
  members.apply(Events()
                    .put(kKeys.ended(kRun), failure_of(2, "a bad record"))
                    .gone(kKeys.rank(kRun, 1))
                    .response);
  EXPECT_EQ(text_of(members.status()), "rank 2: a bad record");
  EXPECT_EQ(members.status().error().code(), ErrorCode::data_loss);
  EtcdMembers others = three();
  others.apply(Events()
                   .gone(kKeys.rank(kRun, 1))
                   .put(kKeys.ended(kRun), failure_of(2, "a bad record"))
                   .response);
  EXPECT_EQ(text_of(others.status()), "rank 1 was lost: no sign of life for 1500 ms");
}

TEST(EtcdMembers, MalformedEvents) {
  EtcdMembers members = three();
  members.apply(Events()
                    .gone("/penstock/job/another/signs/rank/1")
                    .gone(kKeys.signs(kRun) + "rank/3")
                    .gone(kKeys.signs(kRun) + "rank/-1")
                    .gone(kKeys.signs(kRun) + "rank/1x")
                    .gone(kKeys.signs(kRun) + "rank/")
                    .put(kKeys.signs(kRun) + "left/99999999999999999999")
                    .put(kKeys.ended(kRun), "\xff\xff")
                    .put(kKeys.ended(kRun), failure_of(3, "nobody's"))
                    .put(kKeys.ended(kRun), "")
                    .response);
  EXPECT_EQ(text_of(members.status()), "");
  EXPECT_EQ(members.refused(), 9U);
  EXPECT_EQ(members.next_revision(), 110);
}

TEST(EtcdMembers, CompactedHistory) {
  RangeResponse now;
  now.mutable_header()->set_revision(500);
  for (const std::string& key : {kKeys.rank(kRun, 0), kKeys.left(kRun, 2)})
    now.add_kvs()->set_key(key);
  EtcdMembers members = three();
  members.apply(now);
  EXPECT_EQ(text_of(members.status()), "rank 1 was lost: no sign of life for 1500 ms");
  EXPECT_EQ(members.next_revision(), 501);
  now.add_kvs()->set_key(kKeys.rank(kRun, 1));
  EtcdMembers others = three();
  others.apply(now);
  EXPECT_EQ(text_of(others.status()), "");
}

TEST(EtcdMembers, RemainingRanks) {
  RangeResponse now;
  const auto add = [&](const std::string& key) { now.add_kvs()->set_key(key); };
  EXPECT_TRUE(all_left(now, kKeys.signs(kRun), 3));
  add(kKeys.rank(kRun, 0));
  EXPECT_TRUE(all_left(now, kKeys.signs(kRun), 3));
  add(kKeys.rank(kRun, 3));  // nonsense
  EXPECT_TRUE(all_left(now, kKeys.signs(kRun), 3));
  add(kKeys.rank(kRun, 2));
  EXPECT_FALSE(all_left(now, kKeys.signs(kRun), 3));
  add(kKeys.left(kRun, 2));
  add(kKeys.left(kRun, 1));
  EXPECT_TRUE(all_left(now, kKeys.signs(kRun), 3));
}

TEST(EtcdMembers, DifferingRegistrations) {
  RangeResponse ranks;
  const auto add = [&](int rank, const std::string& version, int key) {
    wire::JoinRequest request;
    request.set_rank(rank);
    request.set_incarnation("p" + std::to_string(key));
    (*request.mutable_facts())["version"] = version;
    etcdserverpb::KeyValue& entry = *ranks.add_kvs();
    entry.set_key(kKeys.rank(kRun, key));
    entry.set_value(request.SerializeAsString());
  };
  add(0, "1", 0);
  add(2, "1", 2);
  add(1, "3", 2);  // who says that it is another
  ranks.add_kvs()->set_key(kKeys.rank(kRun, 1));
  ranks.mutable_kvs(3)->set_value("\xff");
  EXPECT_EQ(lobby_of(ranks, 3).missing(), "rank 1");
  add(1, "2", 1);
  const Lobby lobby = lobby_of(ranks, 3);
  EXPECT_TRUE(lobby.complete());
  EXPECT_EQ(text_of(lobby.status()),
            "ranks differ: rank 1 with version 2, ranks 0, 2 with version 1");
}

}  // namespace
}  // namespace penstock::cluster
