// The includes of the code fragments in the documentation.
#pragma once

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <penstock/penstock.h>
#include <penstock/towers.h>

namespace ps = penstock;
namespace tw = penstock::towers;
