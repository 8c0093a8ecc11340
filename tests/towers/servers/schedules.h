// Schedules of sync_replicas, and their results, worked out by hand.
//
// These are TensorFlow's rules (sync_replicas_optimizer.py, TF 1.15):
//
// - A gradient is dropped if its worker's local step is less than the global step.
// - The first replicas_to_aggregate other gradients make an update.
// - Each update enqueues max(total_num_replicas, replicas_to_aggregate) tokens with the new global
//   step.
// - A worker dequeues one token, first in first out, after each push. Its local step becomes that
//   of the token.
//
// Here each replica also begins with a token. A replica that leaves or is lost gives its token
// back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::towers::test {

/// Replicas act one after the other, as `play` says. "0" pushes with its current token; "-0"
/// leaves; "x0" falls silent until it counts as lost; "+0" comes back.
struct WorkedOut {
  std::string name;
  int total, aggregate;
  std::string play;
  std::uint64_t steps, applied, dropped, pending;
  /// The steps of the tokens that replicas hold at the end; "-": none, ".": it has left.
  std::string tokens;
};

inline std::vector<WorkedOut> schedules() {
  return {
      {"nobody pushes", 3, 3, "", 0, 0, 0, 0, "0 0 0"},
      {"all in order", 3, 3, "0 1 2", 1, 3, 0, 0, "1 1 1"},
      {"all, the other way round", 3, 3, "2 1 0", 1, 3, 0, 0, "1 1 1"},
      {"the slow one is waited for", 3, 3, "0 1", 0, 0, 0, 2, "- - 0"},
      {"two rounds", 3, 3, "0 1 2 2 0 1", 2, 6, 0, 0, "2 2 2"},
      {"one alone makes updates", 1, 1, "0 0 0", 3, 3, 0, 0, "3"},
      // Two of three make an update, which makes three tokens of step 1. Two replicas wait for one;
      // the third token remains.
      {"a backup is still at it", 3, 2, "0 1", 1, 2, 0, 0, "1 1 0"},
      // The slow replica's gradient is of step 0, so it is dropped. The replica gets the remaining
      // token.
      {"what a backup brings is dropped", 3, 2, "0 1 2", 1, 2, 1, 0, "1 1 1"},
      {"a backup that is dropped is in time next", 3, 2, "0 1 2 2 0", 2, 4, 1, 0, "2 1 2"},
      // After its first push, 0 gets the third token of step 1 as well, and completes the update
      // alone.
      {"a fast one works for two", 3, 2, "0 1 0 0", 2, 4, 0, 0, "2 1 0"},
      // 0 has the third token of step 1 when 1 completes step 2. 2 is dropped, and gets a token of
      // step 2.
      {"the slow one is two behind", 3, 2, "0 1 0 1 2", 2, 4, 1, 0, "1 2 2"},
      // 0's token has grown old, too, so its push is dropped, as in TensorFlow.
      {"an old token is dropped too", 3, 2, "0 1 0 1 2 0", 2, 4, 2, 0, "2 2 2"},
      // aggregate > total: there is one token besides the first token of each replica.
      {"more gradients than replicas", 2, 3, "0 1", 0, 0, 0, 2, "0 -"},
      {"more gradients than replicas, complete", 2, 3, "0 1 0", 1, 3, 0, 0, "1 1"},
      // 2 leaves and gives back its token. 0 gets it for a second gradient.
      {"who leaves gives its token back", 3, 3, "0 1 -2", 0, 0, 0, 2, "0 - ."},
      {"who is left completes updates", 3, 3, "0 1 -2 0", 1, 3, 0, 0, "1 1 ."},
      {"one is left of three", 3, 3, "-1 -2 0 0 0 0", 1, 3, 0, 1, "1 . ."},
      {"what a replica has pushed counts though it leaves", 2, 2, "1 -1 0", 1, 2, 0, 0, "1 ."},
      // 2 is lost. Its token goes to 0, which waits first.
      {"who dies gives its token back", 3, 3, "0 1 x2 0", 1, 3, 0, 0, "1 1 -"},
      // 2 comes back and waits in line. 0 and 1 have one each of the three tokens of step 1.
      {"a late joiner waits for a token", 3, 3, "0 1 x2 +2", 0, 0, 0, 2, "0 - -"},
      {"a late joiner gets a token of the next update", 3, 3, "0 1 x2 +2 0", 1, 3, 0, 0, "1 1 1"},
      {"a dead one's gradient counts", 3, 3, "2 x2 0 1", 1, 3, 0, 0, "1 1 -"},
      {"two die", 4, 4, "x3 x2 0 1 0 1", 1, 4, 0, 0, "1 1 - -"},
      // 0 gets the lost replica's token of step 0, which is old when 0 pushes with it. Then 0 gets
      // a token of step 1, and 1 gets the last of these after its push.
      {"a dead backup's token grows old", 3, 2, "x2 0 1 0 1", 1, 2, 1, 1, "1 1 -"},
      {"nobody waits for a dead backup", 3, 2, "x2 0 1 0 1 1", 2, 4, 1, 0, "1 2 -"}};
}

}  // namespace penstock::towers::test
