"""scikit-learn's own checks of estimators."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from funcnet.sklearn import Classifier, Regressor

QUICK = ("check_no_attributes_set_in_init", "check_fit2d_1sample", "check_dict_unchanged", "check_estimators_pickle")


def checks():
    found = []
    # In float32, fits with weights and with repeated rows differ by 2e-7, and scikit-learn allows 1e-7.
    for estimator in (Classifier(max_epochs=40, dtype="float64"), Regressor(max_epochs=40, dtype="float64")):
        for number, (one, check) in enumerate(estimator_checks_generator(estimator)):
            name = check.func.__name__
            marks = [] if name in QUICK and isinstance(one, Classifier) else [pytest.mark.slow]
            found.append(pytest.param(estimator, number, marks=marks, id=f"{type(one).__name__}-{name}-{number}"))
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "number"), checks())
def test_check(estimator, number):
    one, check = list(estimator_checks_generator(estimator))[number]
    check(one)
