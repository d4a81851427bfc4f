// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

/// HOLDFAST_EXPORT marks the classes and functions that a shared library exports. All others are hidden in it. A class
/// with virtual functions, or one that is thrown, has the mark even if a header defines all of it. So all libraries and
/// the program share its type information.
///
/// HOLDFAST_INTERNAL marks parts of libholdfast that only its sister libraries of the same version use. They are
/// exported, too, but they are not a part of the interface, and may change at any time.
///
/// A compiler for Windows would need __declspec(dllexport) or __declspec(dllimport) here. If the static library becomes
/// a part of a shared one, that one exports the same symbols. To prevent it, define HOLDFAST_EXPORT as nothing in both
/// builds.
#if !defined(HOLDFAST_EXPORT)
#if defined(__GNUC__)  // and clang
#define HOLDFAST_EXPORT [[gnu::visibility("default")]]
#else
#define HOLDFAST_EXPORT
#endif
#endif
#define HOLDFAST_INTERNAL HOLDFAST_EXPORT
