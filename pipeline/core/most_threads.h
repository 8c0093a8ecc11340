#pragma once

#include <penstock/iterator.h>
