# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# REPO and SHA512 are placeholders: set them to where the release is, and to the checksum of its source.
vcpkg_from_github(
  OUT_SOURCE_PATH SOURCE_PATH
  REPO holdfast/holdfast
  REF "v${VERSION}"
  SHA512 0
  HEAD_REF main
)
vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  FEATURES
    tls HOLDFAST_TLS
    rabbitmq HOLDFAST_RABBITMQ
)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${FEATURE_OPTIONS}
    -DHOLDFAST_BUILD_TESTS=OFF
    -DHOLDFAST_BUILD_EXAMPLES=OFF
    -DHOLDFAST_BUILD_PROGRAM=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/holdfast)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
