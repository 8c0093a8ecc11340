// Variables as safetensors files, without the rest of a checkpoint.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <penstock/towers/variables.h>

namespace penstock::towers {

/// Writes tower 0's variables to `path`, durably. The file also holds the names of the classes that
/// labels count, and `metadata`.
void export_variables(const VariableStore& store, const std::string& path,
                      const std::vector<std::string>& classes = {},
                      std::map<std::string, std::string> metadata = {});
/// Returns the classes in such a file; an empty list if it names none. Throws Error{unavailable |
/// data_loss}.
std::vector<std::string> exported_classes(const std::string& path);

/// Gives tower 0's variables the values of such a file. With `cast`, values of f16, bf16 and f64
/// become f32. Throws Error{invalid_argument} naming a variable that the file lacks, or has in
/// another shape or type.
void import_variables(VariableStore& store, const std::string& path, bool cast = false);

}  // namespace penstock::towers
