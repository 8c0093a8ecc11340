// What the fragments of code in the documentation include.
#pragma once

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <penstock/penstock.h>

namespace ps = penstock;
