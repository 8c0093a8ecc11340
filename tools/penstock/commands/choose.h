// Options that take one of a few names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <penstock/feed.h>

namespace penstock::tool {

template <typename T>
using Choices = std::vector<std::pair<std::string, T>>;

/// Makes the option take one of these names. The option's help text must list them. CLI applies the
/// transformation added last first, so an unknown name fails in IsMember.
template <typename T>
void choose(CLI::Option* option, const Choices<T>& choices) {
  std::vector<std::string> known;
  for (const auto& [name, value] : choices) known.push_back(name);
  option->transform(CLI::CheckedTransformer(choices).description(""))
      ->transform(CLI::IsMember(known).description(""));
}

inline void choose_feed_mode(CLI::Option* option) {
  choose<FeedMode>(option, {{"split", FeedMode::split},
                            {"per_tower", FeedMode::per_tower},
                            {"sharded", FeedMode::sharded}});
}

inline void choose_epoch_end(CLI::Option* option) {
  choose<EpochEnd>(option, {{"drop", EpochEnd::drop},
                            {"pad", EpochEnd::pad},
                            {"wrap", EpochEnd::wrap},
                            {"stop", EpochEnd::stop}});
}

}  // namespace penstock::tool
