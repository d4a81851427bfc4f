# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# CPack runs this file before it makes packages of the installed files. It compresses the manual, which rpm does itself on
# Fedora, but not on each system.
file(GLOB pages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/man/man*/*[0-9])
if(pages)
  execute_process(COMMAND gzip --best --no-name ${pages} COMMAND_ERROR_IS_FATAL ANY)
endif()
