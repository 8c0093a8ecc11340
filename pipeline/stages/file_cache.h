// A stage that keeps its input's elements in a file.
#pragma once

#include <string>

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that keeps its input's elements in a file. The first pass that is read to its
/// end writes the file under a temporary name, and renames it when everything is on the disk. Later
/// passes, epochs and runs read it. The file has a key: the fingerprint of the graph in front and,
/// if anything in that graph is random, the seed. A file with another key is replaced. `file` is
/// the path of the file. With `snapshot` it is a folder of files named by their keys, so that
/// graphs do not replace each other's files. Errors are not kept. Opening throws Error{unavailable}
/// while another run writes the file, Error{invalid_argument} if the file is not a cache, and
/// Error{data_loss} if it is damaged.
NodePtr make_file_cache(NodePtr input, std::string file, bool snapshot);

}  // namespace penstock
