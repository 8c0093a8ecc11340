// The input of models: checked before anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/towers/model.h>

namespace penstock::towers {

/// Checks that the data have the components that a model takes. Throws Error{invalid_argument} for
/// a component that is missing or has none of the accepted forms. The error names the model, what
/// it takes and what the data have.
void check_input(std::string_view model, const Spec& data,
                 const std::vector<TakenComponent>& takes);
/// Checks that the labels do not count more named classes than the model has outputs. Throws
/// Error{invalid_argument} if they do.
void check_classes(std::string_view model, const Dataset& data, std::int64_t outputs);

/// Returns the elements that the model takes. Data that are ready (ModelKind::ready) stay as they
/// are. If their source names no classes, a stage checks the labels (ModelKind::classes). Other
/// data go through the model's own input.
Dataset model_input(const ModelKind& kind, const Dataset& stored, bool training);
/// Returns the same elements, but with images that a device makes of encoded ones
/// (ImageOps::on_device): set TrainOptions::on_device to `kind.images(training)`. Throws
/// Error{invalid_argument} if the model takes no images, or if those of the data are not encoded.
Dataset model_input_on_device(const ModelKind& kind, const Dataset& stored, bool training);
/// Returns the components of the data that every model's input passes on unchanged: kWeight and
/// kRow, one number each. Throws Error{invalid_argument} if they are of another dtype or shape.
std::vector<ComponentSpec> carried_in(std::string_view model, const Spec& data);
/// Copies these components into views of a batch.
void carry(const Element& in, Element& out);

}  // namespace penstock::towers
