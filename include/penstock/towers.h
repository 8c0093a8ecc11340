// The trainer: variables, layers, losses, optimizers and strategies, and the code that runs them.
// It is part of `find_package(penstock COMPONENTS towers)`, which links penstock::towers.
//
// Some names are stable within a minor version, as the rest of Penstock. They are the names that
// examples/own_model.cpp, examples/own_columns.cpp and docs/training.md use:
//
// - Model, Batch, Loss, Pass, Layer, Array, Scope; Variable's name, value, gradient, `accumulate`
//   and `added`; the layers and losses
// - Optimizer, Schedule, StrategyOptions, TrainOptions, TrainObserver, Trainer
// - ParameterExchange and `join`
// - the functions that make columns, `transform_columns`, ColumnModel, and the layers over columns
//
// The other members of Variable, and VariableStore, Strategy, Part and Gpu, are internal to the
// trainer's parts and change with them.
#pragma once

#include <penstock/language.h>  // IWYU pragma: keep

#include <penstock/towers/array.h>
#include <penstock/towers/class_weights.h>
#include <penstock/towers/classifier.h>
#include <penstock/towers/columns/column.h>
#include <penstock/towers/columns/column_model.h>
#include <penstock/towers/columns/fingerprint.h>
#include <penstock/towers/columns/input_layer.h>
#include <penstock/towers/columns/lookup.h>
#include <penstock/towers/columns/transform.h>
#include <penstock/towers/evaluation.h>
#include <penstock/towers/export.h>
#include <penstock/towers/join.h>
#include <penstock/towers/layer.h>
#include <penstock/towers/layers/batch_norm.h>
#include <penstock/towers/layers/conv2d.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/dropout.h>
#include <penstock/towers/layers/embedding_bag.h>
#include <penstock/towers/layers/l2.h>
#include <penstock/towers/layers/lrn.h>
#include <penstock/towers/layers/pool.h>
#include <penstock/towers/layers/relu.h>
#include <penstock/towers/layers/residual.h>
#include <penstock/towers/layers/similarity.h>
#include <penstock/towers/layers/softmax_loss.h>
#include <penstock/towers/model.h>
#include <penstock/towers/model_input.h>
#include <penstock/towers/optimizer.h>
#include <penstock/towers/parameter_exchange.h>
#include <penstock/towers/schedule.h>
#include <penstock/towers/strategy.h>
#include <penstock/towers/trainer.h>
#include <penstock/towers/variables.h>
