"""Users of the page, as Airflow's simple auth manager knows them."""

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser


def token(role, name="jane"):
    user = SimpleAuthManagerUser(username=name, role=role)
    return get_auth_manager().generate_jwt(user)


def bearer(role, name="jane"):
    return {"Authorization": f"Bearer {token(role, name)}"}
