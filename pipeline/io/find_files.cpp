#include <penstock/find_files.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace penstock {

std::vector<std::string> take_hidden(std::vector<std::string>& paths, const std::string& folder) {
  // A server may write the folder's URL in another way, but its parts stay as many.
  auto above = std::ranges::count(folder, '/');
  if (!folder.empty() && folder.back() != '/') ++above;
  const auto is_shown = [above](std::string_view path) {
    for (auto i = above; i > 0; --i) path.remove_prefix(path.find('/') + 1);
    return !path.starts_with('.') && path.find("/.") == path.npos;
  };
  const auto hidden = std::stable_partition(paths.begin(), paths.end(), is_shown);
  std::vector<std::string> taken(std::make_move_iterator(hidden),
                                 std::make_move_iterator(paths.end()));
  paths.erase(hidden, paths.end());
  return taken;
}

}  // namespace penstock
