#pragma once

/// The library's version, also what CMake's project() says (a test compares the two).
#define HOLDFAST_VERSION_MAJOR 0
#define HOLDFAST_VERSION_MINOR 1
#define HOLDFAST_VERSION_PATCH 0
#define HOLDFAST_VERSION_STRING "0.1.0"
