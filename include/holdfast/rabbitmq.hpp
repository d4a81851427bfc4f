// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

/// Includes all that there is for RabbitMQ. It is in the library `holdfast::rabbitmq`, which is built with the option
/// HOLDFAST_RABBITMQ.
///
/// - `holdfast::rabbitmq::client` to reach a broker.
/// - `holdfast::rabbitmq::semaphore`, and the `holdfast::rabbitmq::slot` that an acquire returns.
/// - `holdfast::with_slot` to run a critical section.
/// - `holdfast::rabbitmq::semaphore_administration` to create, change and destroy semaphores.

#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/rabbitmq/client.hpp>
#include <holdfast/rabbitmq/config.hpp>
#include <holdfast/rabbitmq/options.hpp>
#include <holdfast/rabbitmq/semaphore.hpp>
#include <holdfast/rabbitmq/semaphore_administration.hpp>
#include <holdfast/rabbitmq/slot.hpp>
#include <holdfast/with_slot.hpp>
